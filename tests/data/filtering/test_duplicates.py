"""Duplicates of a whole corpus are those that a set finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.filtering import duplicates
from weft.data.filtering.duplicates import Hashes, decide_duplicates
from weft.data.filtering.pipeline import KEPT


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([100, 300, 1000, 5000]))
def test_duplicates_among_many_rows_are_those_a_set_finds(seed, sorted_rows):
    scanned_rows, duplicates.SCANNED_ROWS = duplicates.SCANNED_ROWS, 90
    try:
        _compare_with_a_set(seed, sorted_rows)
    finally:
        duplicates.SCANNED_ROWS = scanned_rows


def _compare_with_a_set(seed, sorted_rows):
    draws = np.random.default_rng(seed)
    rows, steps = 1000, (1, 3, 4)
    drop_reasons = draws.integers(-1, 6, rows).astype(np.int16)
    hashes = {step: draws.integers(0, 2**64, 300, np.uint64)[draws.integers(0, 300, rows)] for step in steps}
    hashes[3][draws.random(rows) < 0.6] = 2**63 + 1  # one text that most of the corpus is made of
    known = {step: (drop_reasons == KEPT) | (drop_reasons > step) for step in steps}
    expected = []
    seen = {step: set() for step in steps}
    for row, reason in enumerate(drop_reasons.tolist()):
        for step in steps:
            if known[step][row] and (reason == KEPT or reason > step):
                if int(hashes[step][row]) in seen[step]:
                    reason = step
                    break
                seen[step].add(int(hashes[step][row]))
        expected.append(reason)
    recorded = {step: Hashes(hashes[step], known[step]) for step in steps}
    assert decide_duplicates(drop_reasons, recorded, sorted_rows=sorted_rows).tolist() == expected


def test_nothing_is_decided_among_nothing():
    none = np.zeros(0, np.int16)
    found = decide_duplicates(none, {0: Hashes(np.zeros(0, np.uint64), np.zeros(0, bool))})
    assert len(found) == 0 and found.dtype == np.int16
