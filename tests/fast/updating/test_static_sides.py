"""Sides of a batch that are filled up to a fixed number of tokens."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.fast.updating.cuda_graph_update import LENGTH_BUCKETS
from weft.fast.updating.static_sides import StaticSide, bucket_length, pad, padded_rows

quick = settings(deadline=None, max_examples=50)
CPU = torch.device("cpu")


def test_length_buckets() -> None:
    assert [bucket_length(longest, 300, (16, 32, 64)) for longest in (1, 16, 17, 33, 64)] == [16, 16, 32, 64, 64]
    assert bucket_length(65, 300, (16, 32, 64)) == bucket_length(300, 300, (16, 32, 64)) == 300
    assert [bucket_length(longest, 20, (16, 32, 64)) for longest in (1, 16, 17, 20)] == [16, 16, 20, 20], (
        "no row is longer"
    )
    for buckets in LENGTH_BUCKETS.values():
        assert list(buckets) == sorted(set(buckets))


def test_padded_lengths_by_hand() -> None:
    side = StaticSide(20, 6, 7, CPU)
    assert side.padded_lengths(torch.tensor([3, 2])).tolist() == [3, 2, 6, 6, 3, 0, 0]
    assert side.padded_lengths(torch.tensor([6, 6, 6, 2])).tolist() == [6, 6, 6, 2, 0, 0, 0]
    assert side.padded_lengths(torch.tensor([2, 6])).tolist() == [2, 6, 6, 6, 0, 0, 0]
    assert padded_rows(torch.tensor([3, 2]), 20, 6) == 5
    assert padded_rows(torch.tensor([6, 6, 6, 2]), 20, 6) == 4
    assert padded_rows(torch.tensor([2, 6]), 20, 6) == 4


def test_a_side_is_a_ragged_of_its_shape() -> None:
    ragged = StaticSide(20, 6, 7, CPU).ragged()
    assert ragged.values.tolist() == [0] * 20
    assert (ragged.layout.rows, ragged.layout.total, ragged.layout.longest) == (7, 20, 6)
    assert ragged.layout.device_offsets.tolist() == [0, 6, 12, 18, 20, 20, 20, 20]


@quick
@given(st.lists(st.integers(0, 99), max_size=9), st.integers(0, 5), st.integers(-1, 50))
def test_pad(values: list[int], count: int, padding: int) -> None:
    given = torch.tensor(values, dtype=torch.int64)
    found = pad(given, len(values) + count, padding)
    assert found.tolist() == values + [padding] * count and found.dtype == torch.int64
    assert given.tolist() == values
