"""Deciding which pairs of a whole corpus are duplicates: the first stays, the others are dropped by the step.

The steps of a pipeline are taken in order. A `duplicates` step considers the pairs that no step before it dropped,
earlier `duplicates` steps included. A pair that a later step drops is still the first of its kind.

Hashes are recorded in arrays of any length, which may be on disk (np.memmap), and processed in partitions by their top
bits, so that no more than one partition is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from weft.data.filtering.pipeline import KEPT

SORTED_ROWS = 1 << 22
"""Rows sorted together; each takes about 60 bytes while it is sorted."""
SCANNED_ROWS = 1 << 17
"""Rows scanned together for those of a partition: few enough to stay in the processor's cache."""


class Hashes(NamedTuple):
    """The hashes that a `duplicates` step recorded for every pair of a corpus."""

    values: np.ndarray
    """uint64."""
    known: np.ndarray
    """bool: whether the pair has a hash; False if it was dropped before the step."""


class HashedRows(NamedTuple):
    """Some rows, and their hashes."""

    rows: np.ndarray
    values: np.ndarray


def decide_duplicates(
    drop_reasons: np.ndarray, hashes: Mapping[int, Hashes], *, sorted_rows: int = SORTED_ROWS
) -> np.ndarray:
    """The final drop reasons of all pairs of a corpus.

    drop_reasons    int16: for each pair `KEPT` or the step that dropped it, as in `Outcome.drop_reasons`
    hashes          for each `duplicates` step the hashes of all pairs

    Besides input and output, this uses memory for about `sorted_rows` rows: 60 bytes each, 250 MB.
    """
    final = np.array(drop_reasons, dtype=np.int16)
    bits = (len(final) // sorted_rows).bit_length()
    for step in sorted(hashes):
        for partition in range(1 << bits):
            _drop_repeated(final, step, _candidates(final, step, hashes[step], partition, bits), sorted_rows)
    return final


def _candidates(final: np.ndarray, step: int, hashes: Hashes, partition: int, bits: int) -> Iterator[HashedRows]:
    """The rows that reached a step and whose hash starts with certain bits. Hashes are spread evenly over these."""
    for start in range(0, len(final), SCANNED_ROWS):
        end = min(start + SCANNED_ROWS, len(final))
        values, reasons = hashes.values[start:end], final[start:end]
        selected = hashes.known[start:end] & ((reasons == KEPT) | (reasons > step))
        if bits:
            selected &= (values >> np.uint64(64 - bits)) == partition
        rows = np.flatnonzero(selected)
        yield HashedRows(rows + start, values[rows])


def _drop_repeated(final: np.ndarray, step: int, candidates: Iterable[HashedRows], sorted_rows: int) -> None:
    """Mark all rows but the first of each hash as dropped by the step."""
    pending: list[HashedRows] = []
    for candidate in candidates:
        pending.append(candidate)
        if sum(len(part.rows) for part in pending) > sorted_rows:  # half the corpus may have one hash: keep the first
            pending = [_drop_sorted(final, step, pending)]
    if pending:
        _drop_sorted(final, step, pending)


def _drop_sorted(final: np.ndarray, step: int, parts: list[HashedRows]) -> HashedRows:
    """Mark all rows but the first of each hash; the first rows and their hashes."""
    rows, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(values, kind="stable")
    rows, values = rows[order], values[order]
    is_first = np.ones(len(rows), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    final[rows[~is_first]] = step
    return HashedRows(rows[is_first], values[is_first])
