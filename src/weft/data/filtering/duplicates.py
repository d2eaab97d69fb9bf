"""Deciding which pairs of a whole corpus are duplicates: the first stays, the others get the drop_reason of the step.

The steps of a pipeline are taken in order. At a `duplicates` step those pairs count that no step before it dropped,
earlier `duplicates` steps included. A pair that a later step drops is still the first of its kind.

Hashes are recorded in arrays of any length, which may lie on disk (np.memmap), and taken in parts by their top bits, so
that no more than a part is ever in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.data.filtering.pipeline import KEPT

AT_ONCE = 1 << 22
"""Rows sorted together; one costs about 60 bytes while it is."""
LOOKED_THROUGH = 1 << 17
"""Rows looked through together for those of a part: few enough to stay in the processor's cache."""


def decide_duplicates(
    drop_reasons: np.ndarray,
    hashes: Mapping[int, np.ndarray],
    known: Mapping[int, np.ndarray],
    *,
    at_once: int = AT_ONCE,
) -> np.ndarray:
    """The final drop_reasons of all pairs of a corpus.

    drop_reasons     int16: for each pair -1 or the step that dropped it, as `Outcome.drop_reasons` says
    hashes    uint64: for each `duplicates` step, for each pair its hash ...
    known     bool: ... and whether it has one (False: dropped before)

    Beside what is given and what comes back, memory for about `at_once` rows is used: 60 bytes each, 250 MB.
    """
    final = np.array(drop_reasons, dtype=np.int16)
    bits = (len(final) // at_once).bit_length()
    for step in sorted(hashes):
        for part in range(1 << bits):
            _decide_part(final, step, hashes[step], known[step], part=part, bits=bits, at_once=at_once)
    return final


def _decide_part(
    final: np.ndarray, step: int, hashes: np.ndarray, known: np.ndarray, *, part: int, bits: int, at_once: int
) -> None:
    """Decide among the rows whose hash begins with certain bits. Different hashes are spread evenly over the parts."""
    waiting_rows: list[np.ndarray] = []
    waiting_hashes: list[np.ndarray] = []
    waiting = 0
    for start in range(0, len(final), LOOKED_THROUGH):
        end = min(start + LOOKED_THROUGH, len(final))
        numbers, drop_reasons = hashes[start:end], final[start:end]
        here = known[start:end] & ((drop_reasons == KEPT) | (drop_reasons > step))
        if bits:
            here &= (numbers >> np.uint64(64 - bits)) == part
        rows = np.flatnonzero(here)
        waiting_hashes.append(numbers[rows])
        waiting_rows.append(rows + start)
        waiting += len(rows)
        if waiting > at_once or end == len(final):  # one hash may be that of half the corpus: keep its first row only
            first_rows, first_hashes = _mark(final, step, np.concatenate(waiting_rows), np.concatenate(waiting_hashes))
            waiting_rows, waiting_hashes, waiting = [first_rows], [first_hashes], len(first_rows)


def _mark(final: np.ndarray, step: int, rows: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mark all but the first of rows with the same hash; gives the rows and hashes of the first ones."""
    order = np.argsort(hashes, kind="stable")
    rows, hashes = rows[order], hashes[order]
    first = np.ones(len(rows), dtype=bool)
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    final[rows[~first]] = step
    return rows[first], hashes[first]
