"""Rows of two parts: the layout that a CUDA graph computes is the one of the joined lengths."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.attention.ragged_attention import JoinedLayout, join_layouts
from weft.ragged import FixedLayout, Layout

LENGTHS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6)


@given(LENGTHS)
def test_against_the_joined_lengths(pairs: list[tuple[int, int]]) -> None:
    first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
    expected = Layout(first + second, longest=11)
    fixed = join_layouts(FixedLayout(first, longest=6), FixedLayout(second, longest=5))
    assert isinstance(fixed, JoinedLayout) and not fixed.is_rectangular
    assert (fixed.rows, fixed.total, fixed.longest) == (expected.rows, expected.total, 11)
    for name in ("device_lengths", "device_offsets", "row_ids", "positions", "padded_indices", "masked_BS"):
        assert getattr(fixed, name).tolist() == getattr(expected, name).tolist(), name
    assert fixed.device_offsets.dtype == expected.device_offsets.dtype
    plain = join_layouts(Layout(first), Layout(second))
    assert type(plain) is Layout and plain.lengths.tolist() == expected.lengths.tolist()
