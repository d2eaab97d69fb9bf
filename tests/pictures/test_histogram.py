"""Histograms in the terminal: nothing is lost, everything fits, and the look is as drawn here."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.pictures.histogram import BULK, EIGHTHS, bins, can_show, histogram

COUNTS = st.one_of(
    st.lists(st.integers(0, 50), max_size=80),
    st.dictionaries(st.integers(0, 70_000), st.integers(1, 10**7), max_size=6).map(
        lambda found: [found.get(place, 0) for place in range(max(found, default=-1) + 1)]
    ),
)


@given(COUNTS, st.integers(3, 20))
def test_every_number_is_in_one_bin_and_the_bins_are_few(counts, max_rows):
    found = bins(counts, max_rows)
    assert sum(bin.frequency for bin in found) == sum(counts)
    assert len(found) <= max_rows
    for bin in found:
        end = len(counts) if bin.last is None else bin.last + 1
        assert bin.frequency == sum(counts[bin.first : end])
    for bin, following in pairwise(found):
        assert bin.last is not None and following.first == bin.last + 1


@given(COUNTS)
def test_bins_are_of_one_round_width_and_only_the_tail_is_gathered(counts):
    assume(sum(counts))
    found = bins(counts)
    if found[-1].last is None:
        assert 0 < found[-1].frequency <= (1 - BULK) * sum(counts)
        found = found[:-1]
    widths = {bin.last - bin.first + 1 for bin in found if bin.first}
    assert len(widths) <= 1
    assert all(str(width).rstrip("0") in ("1", "2", "5") for width in widths)
    assert all(bin.last % width == 0 for bin in found if bin.first for width in widths)


@given(COUNTS, st.integers(50, 120), st.booleans())
def test_all_lines_are_as_wide_and_fit(counts, width, ascii_only):
    lines = histogram(counts, width=width, ascii_only=ascii_only).split("\n")
    assert all(len(line) <= width for line in lines)
    if sum(counts):
        assert len({len(line) for line in lines}) == 1
    if ascii_only:
        assert all(line.isascii() for line in lines)


def test_the_longest_bar_fills_its_room_and_none_that_counts_is_empty():
    assert histogram([0, 1_000_000, 1, 0, 500_000], width=40) == (
        "1 │████████████████████ 1,000,000  66.7%\n"
        "2 │▏                            1   0.0%\n"
        "3 │                             0   0.0%\n"
        "4 │██████████             500,000  33.3%"
    )


def test_blocks_are_not_needed():
    assert histogram([2, *[0] * 8, 4, 4, 6], width=33, max_rows=8, ascii_only=True) == (
        "    0 |####              2  12.5%\n"
        " 1- 2 |                  0   0.0%\n"
        " 3- 4 |                  0   0.0%\n"
        " 5- 6 |                  0   0.0%\n"
        " 7- 8 |                  0   0.0%\n"
        " 9-10 |################# 8  50.0%\n"
        "11-12 |#############     6  37.5%"
    )


def test_nothing_is_said_to_be_nothing():
    assert histogram([]) == histogram([0, 0]) == "(nothing to count)"
    assert histogram(np.zeros(0, np.int64)) == "(nothing to count)"


@pytest.mark.parametrize(
    ("encoding", "answer"), [("utf-8", True), ("ascii", False), ("latin-1", False), (None, False), ("no such", False)]
)
def test_an_encoding_without_blocks_is_known(encoding, answer):
    assert can_show(encoding) is answer
    assert len(EIGHTHS) == 9
