"""Histograms of lengths: every number against one counted the long way."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.data.filtering.length_histogram import CAP, LengthHistogram


def percentile(values, percent):
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1] if values else 0


def lengths_of(values):
    return {
        "mean": round(sum(values) / len(values), 3) if values else 0,
        **{f"p{percent}": percentile(values, percent) for percent in (50, 90, 99)},
        "max": max(values, default=0),
    }


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 7))
def test_lengths_are_exact(values, size):
    lengths = LengthHistogram()
    for start in range(0, len(values), size):
        lengths.add(np.array(values[start : start + size]))
    lengths.add(np.zeros(0, np.int64))
    assert lengths.record() == lengths_of(values)
    assert lengths.counts.tolist() == [values.count(value) for value in range(max(values, default=-1) + 1)]


def test_very_long_texts_are_counted_together_but_the_longest_is_known():
    lengths = LengthHistogram()
    lengths.add(np.array([1, CAP + 5, 10 * CAP]))
    assert len(lengths.counts) == CAP + 1 and lengths.counts[CAP] == 2
    assert lengths.max == 10 * CAP and lengths.mean == (1 + CAP + 5 + 10 * CAP) / 3
    assert lengths.percentile(99) == CAP
