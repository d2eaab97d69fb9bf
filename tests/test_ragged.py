"""A Ragged against plain lists of lists: every method has a one-line counterpart there."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ragged import DeviceLayout, FixedLayout, Layout, Ragged, additive_mask

quick = settings(deadline=None, max_examples=50)

ROWS = st.lists(st.lists(st.integers(0, 99), max_size=7), max_size=6)
FULL_ROWS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=7), min_size=1, max_size=6)


def lists(ragged: Ragged) -> list[list[int]]:
    return [row.tolist() for row in ragged.split()]


@quick
@given(ROWS)
def test_of_and_split_are_inverse(rows: list[list[int]]) -> None:
    batch = Ragged.of(rows)
    assert lists(batch) == rows
    assert batch.rows == len(rows)
    assert batch.lengths.tolist() == [len(row) for row in rows]
    assert batch.values.tolist() == [token for row in rows for token in row]
    assert batch.values.dtype == torch.int64


@quick
@given(ROWS)
def test_layout_locates_every_token(rows: list[list[int]]) -> None:
    layout = Ragged.of(rows).layout
    longest = max(map(len, rows), default=0)
    tokens = [(row, time) for row, ids in enumerate(rows) for time in range(len(ids))]
    assert (layout.rows, layout.total, layout.longest) == (len(rows), len(tokens), longest)
    assert layout.offsets.tolist() == [sum(map(len, rows[:row])) for row in range(len(rows) + 1)]
    assert layout.row_ids.tolist() == [row for row, _ in tokens]
    assert layout.positions.tolist() == [time for _, time in tokens]
    assert layout.padded_indices.tolist() == [row * longest + time for row, time in tokens]
    assert layout.masked_BS.shape == (len(rows), longest)
    assert layout.masked_BS.tolist() == [[time >= max(len(ids), 1) for time in range(longest)] for ids in rows]


@quick
@given(ROWS)
def test_time_major_order(rows: list[list[int]]) -> None:
    batch = Ragged.of(rows)
    order = batch.layout.time_major
    longest = max(map(len, rows), default=0)
    by_length = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    assert order.sorted_rows.tolist() == by_length
    assert order.batch_sizes == [sum(len(ids) > time for ids in rows) for time in range(longest)]
    assert batch.values[order.indices].tolist() == [
        rows[row][time] for time in range(longest) for row in by_length if len(rows[row]) > time
    ]
    assert order.indices[order.inverse].tolist() == list(range(batch.layout.total))
    assert order.sorted_rows[order.unsorted_rows].tolist() == list(range(len(rows)))
    initial = torch.full((len(rows),), -7)
    last = order.last(order.sort(batch.values), order.sort_rows(initial))
    assert order.unsort_rows(last).tolist() == [ids[-1] if ids else -7 for ids in rows]


def test_layout_is_computed_once_and_shared() -> None:
    batch = Ragged.of([[1, 2], [3]])
    assert batch.map(lambda values: values + 1).layout is batch.layout
    assert batch.layout.time_major is batch.layout.time_major
    assert batch.to("cpu") is batch


@quick
@given(ROWS)
def test_padding_and_back(rows: list[list[int]]) -> None:
    batch = Ragged.of(rows)
    longest = max(map(len, rows), default=0)
    assert batch.to_padded().shape == (len(rows), longest)
    assert batch.to_padded().tolist() == [ids + [0] * (longest - len(ids)) for ids in rows]
    assert lists(batch.from_padded(batch.to_padded())) == rows


@quick
@given(FULL_ROWS)
def test_padding_keeps_other_axes_and_gradients(rows: list[list[int]]) -> None:
    batch = Ragged.of(rows)
    wide = batch.like(torch.randn(batch.layout.total, 3, 2, requires_grad=True))
    padded = wide.to_padded()
    assert padded.shape == (batch.rows, batch.layout.longest, 3, 2)
    for row, values in enumerate(wide.split()):
        assert torch.equal(padded[row, : len(values)], values)
        assert not padded[row, len(values) :].any()
    assert torch.equal(wide.from_padded(padded).values, wide.values)
    padded.sum().backward()
    assert torch.equal(wide.values.grad, torch.ones_like(wide.values))


@quick
@given(ROWS)
def test_reversed(rows: list[list[int]]) -> None:
    batch = Ragged.of(rows)
    assert lists(batch.reversed()) == [ids[::-1] for ids in rows]
    assert lists(batch.reversed().reversed()) == rows


@quick
@given(ROWS, st.integers(0, 99))
def test_shifted(rows: list[list[int]], first: int) -> None:
    batch = Ragged.of(rows)
    assert lists(batch.shifted(first)) == [([first, *ids])[: len(ids)] for ids in rows]
    assert lists(batch) == rows, "the batch itself must not change"


@quick
@given(ROWS, st.data())
def test_select_takes_rows_in_any_order_and_more_than_once(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)) if rows else []
    picked = Ragged.of(rows).select(torch.tensor(chosen, dtype=torch.int64))
    assert lists(picked) == [rows[row] for row in chosen]


def test_of_tensors_and_of_a_single_row() -> None:
    assert lists(Ragged.of([torch.tensor([5, 7]), torch.tensor([11])])) == [[5, 7], [11]]
    assert Ragged.of([[3]]).to_padded().tolist() == [[3]]


@quick
@given(FULL_ROWS, st.integers(0, 3), st.integers(0, 3))
def test_padded_time_major_order(rows: list[list[int]], empty_rows: int, extra: int) -> None:
    """The order of a fixed layout: all rows for as many steps as its bound, forwards and backwards."""
    longest = max(map(len, rows)) + extra
    lengths = torch.tensor([len(ids) for ids in rows] + [0] * empty_rows)
    layout = FixedLayout(lengths, longest=longest)
    values = torch.tensor([token for ids in rows for token in ids])
    order = layout.time_major
    assert order.batch_sizes == [layout.rows] * longest
    for reverse in (False, True):
        ordered = [ids[::-1] if reverse else ids for ids in rows] + [[]] * empty_rows
        padded = [[ids[time] if time < len(ids) else 0 for ids in ordered] for time in range(longest)]
        by_time = order.sort(values, reverse=reverse)
        assert by_time.view(longest, layout.rows).tolist() == padded
        assert torch.equal(order.unsort(by_time, reverse=reverse), values)
        assert order.last(by_time)[: len(rows)].tolist() == [ids[-1] for ids in ordered[: len(rows)]]
    assert order.sort_rows(lengths) is order.unsort_rows(lengths) is lengths


@quick
@given(FULL_ROWS, FULL_ROWS)
def test_a_fixed_layout_is_overwritten_in_place(rows: list[list[int]], others: list[list[int]]) -> None:
    """With rows and tokens added to either batch until both have as many."""
    total = max(sum(map(len, rows)), sum(map(len, others))) + 1
    count = max(len(rows), len(others)) + 1
    lengths = []
    for batch in (rows, others):
        own = [len(ids) for ids in batch]
        lengths.append(torch.tensor([*own, total - sum(own), *[0] * (count - len(own) - 1)]))
    longest = max(int(tensor.max()) for tensor in lengths)
    fixed, expected = FixedLayout(lengths[0], longest=longest), Layout(lengths[1], longest=longest)
    names = ("device_offsets", "device_lengths", "row_ids", "positions", "padded_indices", "masked_BS")
    before = [getattr(fixed, name) for name in names]
    fixed.assign(lengths[1])
    for name, tensor in zip(names, before, strict=True):
        assert getattr(fixed, name) is tensor and torch.equal(tensor, getattr(expected, name))
    assert not fixed.is_rectangular


def test_values_must_fit_the_lengths() -> None:
    with pytest.raises(ValueError, match="Ragged: 4 values for lengths that add up to 5"):
        Ragged(torch.zeros(4), Layout(torch.tensor([2, 3])))


def test_additive_mask():
    mask = additive_mask(torch.tensor([[True, False], [False, False]]), torch.float64)
    assert mask.dtype == torch.float64 and mask.tolist() == [[-math.inf, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("lengths", [[3, 1, 4], [2, 0, 5, 0], [0]])
def test_indices_that_are_computed_on_the_device(lengths):
    """The same as those that are computed on the CPU."""
    plain, other = (kind(torch.tensor(lengths), longest=6) for kind in (Layout, DeviceLayout))
    for name in ("device_offsets", "device_lengths", "row_ids", "positions", "padded_indices", "masked_BS"):
        assert torch.equal(getattr(other, name), getattr(plain, name)), name
        assert getattr(other, name).dtype == getattr(plain, name).dtype
