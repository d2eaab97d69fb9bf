"""Ragged: sequences of unequal length stored end to end; the one batch layout of the library.

Linear layers, norms, embeddings and losses work on its ``values`` and are independent of sequence boundaries, so they
need neither padding nor masks. Only attention and the recurrent layers need the boundaries: they read them from the
`Layout`, which computes each index tensor once per batch and shares it between layers. Attention pads and masks inside
(`to_padded`), except in the variable-length kernel. Updates on a GPU fill up whole batches, with tokens that have no
loss (fast/updating/cuda_graph_update.py).

Suffixes for the axes of a tensor, used in attention/, models/ and search/:

    N tokens end to end   B rows (sequences)   R rows in a search (B × beam)   K beam
    S source positions    T target positions   D width   H heads   V vocabulary   E embedding   G gates
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


def additive_mask(masked: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask that is added to attention scores before the softmax: −∞ where ``masked`` is True, 0 elsewhere."""
    return torch.zeros_like(masked, dtype=dtype).masked_fill_(masked, float("-inf"))


class TimeMajor:
    """The order in which a recurrence reads a batch: all first tokens, then all second tokens, …, longest row first.

    The same order, with the same names, as `torch.nn.utils.rnn.PackedSequence`.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        lengths, device = layout.lengths, layout.device
        rows = torch.argsort(lengths, descending=True, stable=True)
        sizes = (lengths[:, None] > torch.arange(layout.longest)).sum(0)
        times = torch.repeat_interleave(torch.arange(layout.longest), sizes)
        ranks = torch.arange(layout.total) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
        indices = layout.offsets[rows[ranks]] + times
        self.batch_sizes: list[int] = sizes.tolist()
        """The number of rows with a first, second, … token."""
        self.sorted_rows = rows.to(device)
        """(B,) rows from longest to shortest; at time t the leading ``batch_sizes[t]`` of them have a token."""
        self.unsorted_rows = torch.argsort(rows).to(device)
        """(B,) the inverse of ``sorted_rows``."""
        self.indices = indices.to(device)
        """(N,) for each position of this order, its index in the Ragged."""
        self.inverse = torch.argsort(indices).to(device)
        """(N,) for each index of the Ragged, its position in this order."""

    def sort(self, values_ND: Tensor) -> Tensor:
        """Values of a Ragged in this order."""
        return _Permute.apply(values_ND, self.indices, self.inverse)

    def unsort(self, values_ND: Tensor) -> Tensor:
        """The inverse of `sort`."""
        return _Permute.apply(values_ND, self.inverse, self.indices)

    def sort_rows(self, values_BD: Tensor) -> Tensor:
        """One value per row, in the order of ``sorted_rows``."""
        return values_BD.index_select(0, self.sorted_rows)

    def unsort_rows(self, values_BD: Tensor) -> Tensor:
        """The inverse of `sort_rows`."""
        return values_BD.index_select(0, self.unsorted_rows)

    def last(self, values_ND: Tensor, initial_BD: Tensor) -> Tensor:
        """(B, …) of values in this order, those at the last token of each row; ``initial_BD`` where a row has none."""
        begins = torch.tensor([0, self.layout.rows, *self.batch_sizes]).cumsum(0).to(values_ND.device)
        positions_B = begins[self.sort_rows(self.layout.device_lengths)] + torch.arange(
            self.layout.rows, device=values_ND.device
        )
        return torch.cat([initial_BD, values_ND]).index_select(0, positions_B)


class PaddedTimeMajor(TimeMajor):
    """The time-major order of a `FixedLayout`: every row runs for ``longest`` steps, in the order of the batch.

    Values after the end of a row are zero when sorted and dropped when unsorted. No shape depends on the lengths.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.batch_sizes = [layout.rows] * layout.longest

    def _indices(self, reverse: bool) -> Tensor:
        """(N,) the index of every token in a (longest × B) tensor. Not cached: a CUDA graph has to recompute it."""
        layout = self.layout
        times = layout.device_lengths[layout.row_ids] - 1 - layout.positions if reverse else layout.positions
        return times * layout.rows + layout.row_ids

    def sort(self, values_ND: Tensor, *, reverse: bool = False) -> Tensor:
        """(longest × B, …); ``reverse``: every row back to front, starting at time 0 all the same."""
        padded = values_ND.new_zeros(self.layout.longest * self.layout.rows, *values_ND.shape[1:])
        return padded.index_copy(0, self._indices(reverse), values_ND)

    def unsort(self, values_ND: Tensor, *, reverse: bool = False) -> Tensor:
        return _TakeUnique.apply(values_ND, self._indices(reverse))

    def sort_rows(self, values_BD: Tensor) -> Tensor:
        return values_BD

    def unsort_rows(self, values_BD: Tensor) -> Tensor:
        return values_BD

    def last(self, values_ND: Tensor, initial_BD: Tensor | None = None) -> Tensor:
        """The last value of each row; a row without tokens has the value of its first time step, not ``initial_BD``."""
        layout = self.layout
        rows_B = torch.arange(layout.rows, device=layout.device)
        return values_ND.index_select(0, (layout.device_lengths - 1).clamp(min=0) * layout.rows + rows_B)


class Layout:
    """The lengths of a batch's rows and the index tensors that follow from them, each computed once and kept."""

    def __init__(self, lengths: Tensor, device: torch.device | str = "cpu", *, longest: int | None = None) -> None:
        """``longest``: an upper bound on the lengths to use in place of their maximum."""
        self.lengths = lengths.to("cpu", torch.int64)
        self.device = torch.device(device)
        self.rows = len(self.lengths)
        self.total = int(self.lengths.sum())
        if longest is None:
            longest = int(self.lengths.max()) if self.rows else 0
        self.longest = longest

    @cached_property
    def offsets(self) -> Tensor:
        """(B + 1,) where each row begins, on the CPU."""
        return torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths.cumsum(0)])

    @cached_property
    def device_offsets(self) -> Tensor:
        """(B + 1,) `offsets` in 32 bits on the device: the ``cu_seqlens`` of variable-length attention kernels."""
        return self.offsets.to(torch.int32).to(self.device)

    @cached_property
    def device_lengths(self) -> Tensor:
        """(B,) the lengths, on the device."""
        return self.lengths.to(self.device)

    def repeat_per_token(self, values_B: Tensor) -> Tensor:
        """(N,) each row's value once for every token of it; on the CPU."""
        return torch.from_numpy(np.repeat(values_B.numpy(), self.lengths.numpy()))

    @cached_property
    def cpu_positions(self) -> Tensor:
        """(N,) `positions`, on the CPU."""
        return torch.arange(self.total) - self.repeat_per_token(self.offsets[:-1])

    @cached_property
    def positions(self) -> Tensor:
        """(N,) the position of every token within its row."""
        return self.cpu_positions.to(self.device)

    @cached_property
    def row_ids(self) -> Tensor:
        """(N,) the row of every token."""
        return self.repeat_per_token(torch.arange(self.rows)).to(self.device)

    @cached_property
    def padded_indices(self) -> Tensor:
        """(N,) the index of every token in a padded tensor (B × longest)."""
        return (self.repeat_per_token(torch.arange(self.rows) * self.longest) + self.cpu_positions).to(self.device)

    @cached_property
    def masked_BS(self) -> Tensor:
        """(B, longest) True at padding, which attention must not attend to. All False for a row without tokens:
        a softmax over nothing is not a number."""
        return (torch.arange(self.longest) >= self.lengths[:, None].clamp(min=1)).to(self.device)

    @property
    def is_rectangular(self) -> bool:
        """Whether all rows have length ``longest``: padding then is a change of shape."""
        return self.total == self.rows * self.longest

    @cached_property
    def time_major(self) -> TimeMajor:
        """The order of a recurrence over this batch."""
        return TimeMajor(self)


class DeviceLayout(Layout):
    """A layout for large batches on a GPU: index tensors are computed there, and the host does not wait for them."""

    @cached_property
    def device_lengths(self) -> Tensor:
        pinned = self.lengths.pin_memory() if self.device.type == "cuda" else self.lengths
        return pinned.to(self.device, non_blocking=True)

    @cached_property
    def device_offsets(self) -> Tensor:
        return functional.pad(self.device_lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def row_ids(self) -> Tensor:
        rows = torch.arange(self.rows, device=self.device)
        return rows.repeat_interleave(self.device_lengths, output_size=self.total)

    @cached_property
    def positions(self) -> Tensor:
        return torch.arange(self.total, device=self.device) - self.device_offsets[self.row_ids]

    @cached_property
    def padded_indices(self) -> Tensor:
        return self.row_ids * self.longest + self.positions

    @cached_property
    def masked_BS(self) -> Tensor:
        return torch.arange(self.longest, device=self.device) >= self.device_lengths[:, None].clamp(min=1)


class CapturableLayout(Layout):
    """A layout that a CUDA graph may read: no shape depends on the lengths, and nothing but device tensors is used."""

    @property
    def is_rectangular(self) -> bool:
        """No: whether it is now says nothing about the next batch."""
        return False

    @property
    def time_major(self) -> PaddedTimeMajor:
        return PaddedTimeMajor(self)


class FixedLayout(CapturableLayout):
    """The layout of an update that is replayed as a CUDA graph: its index tensors stay at their addresses.

    `assign` overwrites them with those of another batch of as many rows and tokens. A replayed update sees nothing
    but the device tensors, so what reads ``lengths``, ``offsets`` or other values on the CPU must not be part of it.
    See fast/updating/cuda_graph_update.py.
    """

    def __init__(self, lengths: Tensor, device: torch.device | str = "cpu", *, longest: int) -> None:
        super().__init__(lengths, device, longest=longest)
        self._fixed = self._index_tensors(self)

    @staticmethod
    def _index_tensors(layout: Layout) -> list[Tensor]:
        """All that an update may read."""
        offsets, lengths = layout.device_offsets, layout.device_lengths
        return [offsets, lengths, layout.row_ids, layout.positions, layout.padded_indices, layout.masked_BS]

    @property
    def index_tensors(self) -> Sequence[Tensor]:
        """The tensors that `assign` overwrites."""
        return self._fixed

    def assign(self, lengths: Tensor) -> None:
        """Overwrite the index tensors with those of rows of these lengths."""
        layout = Layout(lengths, longest=self.longest)
        for tensor, new in zip(self._fixed, self._index_tensors(layout), strict=True):
            tensor.copy_(new.pin_memory() if tensor.is_cuda else new, non_blocking=True)


class _Permute(torch.autograd.Function):
    """A permutation of rows; its gradient is the inverse permutation, which is cheaper than an index-wise sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return values.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.index_select(0, ctx.saved_tensors[0]), None, None


class _TakeUnique(torch.autograd.Function):
    """Rows at unique indices; being unique, their gradients are copied instead of summed."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.length = len(values)
        return values.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.new_zeros(ctx.length, *gradient.shape[1:])
        return whole.index_copy_(0, ctx.saved_tensors[0], gradient), None


class Ragged:
    """Sequences of unequal length stored end to end: ``values`` (N, …) and their `Layout`."""

    def __init__(self, values: Tensor, layout: Layout) -> None:
        if len(values) != layout.total:
            raise ValueError(f"Ragged: {len(values)} values for lengths that add up to {layout.total}")
        self.values = values
        self.layout = layout

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int] | Tensor], device: torch.device | str = "cpu") -> Ragged:
        """A batch from a list of sequences."""
        if len(sequences) and all(isinstance(sequence, list) for sequence in sequences):
            lengths = torch.from_numpy(np.fromiter(map(len, sequences), np.int64, len(sequences)))
            tokens = np.fromiter(chain.from_iterable(sequences), np.int64, int(lengths.sum()))
            return cls(torch.from_numpy(tokens).to(device), Layout(lengths, device))
        tensors = [torch.as_tensor(sequence, dtype=torch.int64) for sequence in sequences]
        lengths = torch.tensor([len(tensor) for tensor in tensors], dtype=torch.int64)
        values = torch.cat(tensors) if tensors else torch.zeros(0, dtype=torch.int64)
        return cls(values.to(device), Layout(lengths, device))

    @property
    def lengths(self) -> Tensor:
        return self.layout.lengths

    @property
    def rows(self) -> int:
        return self.layout.rows

    @property
    def device(self) -> torch.device:
        return self.values.device

    def like(self, values: Tensor) -> Ragged:
        """Other values for the same tokens."""
        return Ragged(values, self.layout)

    def map(self, function: Callable[[Tensor], Tensor]) -> Ragged:
        return self.like(function(self.values))

    def to(self, device: torch.device | str) -> Ragged:
        if self.device == torch.device(device):
            return self
        return Ragged(self.values.to(device, non_blocking=True), Layout(self.lengths, device))

    def to_padded(self) -> Tensor:
        """(B, longest, …) with zeros after each row's end. For attention and tests, never for a layer that sums."""
        shape = self.values.shape[1:]
        flat = self.values
        if not self.layout.is_rectangular:
            flat = self.values.new_zeros(self.rows * self.layout.longest, *shape)
            flat = flat.index_copy(0, self.layout.padded_indices, self.values)
        return flat.view(self.rows, self.layout.longest, *shape)

    def from_padded(self, padded_BT: Tensor) -> Ragged:
        """The inverse of `to_padded`, for values that follow this layout."""
        flat = padded_BT.flatten(0, 1)
        return self.like(flat if self.layout.is_rectangular else _TakeUnique.apply(flat, self.layout.padded_indices))

    def means(self) -> Tensor:
        """(B, …) the mean of every row's values."""
        sums = self.values.new_zeros(self.rows, *self.values.shape[1:]).index_add(0, self.layout.row_ids, self.values)
        lengths = self.layout.device_lengths.clamp(min=1).to(self.values.dtype)
        return sums / lengths.view(-1, *[1] * (self.values.dim() - 1))

    def split(self) -> list[Tensor]:
        """One tensor per row."""
        return list(self.values.split(self.lengths.tolist()))

    def select(self, rows: Tensor) -> Ragged:
        """The given rows, in the given order."""
        layout = Layout(self.lengths[rows := rows.to("cpu")], self.device)
        starts = self.layout.offsets[:-1][rows]
        indices = (layout.repeat_per_token(starts) + layout.cpu_positions).to(self.device)
        return Ragged(self.values.index_select(0, indices), layout)

    def reversed(self) -> Ragged:
        """Every row back to front (Sutskever et al. 2014)."""
        last = self.layout.repeat_per_token(self.layout.offsets[1:] - 1)
        return self.like(self.values[(last - self.layout.cpu_positions).to(self.device)])

    def empty(self) -> Ragged:
        """A layout with as many rows, all of length zero."""
        return Ragged(self.values[:0], Layout(torch.zeros_like(self.lengths), self.device))

    def shifted(self, first: int) -> Ragged:
        """Every row shifted one position to the right, ``first`` in front: the decoder input for these targets."""
        values = self.values.roll(1)
        starts = self.layout.offsets[:-1][self.lengths > 0].to(self.device)
        values[starts] = first
        return self.like(values)


def budget_slices(lengths: Sequence[np.ndarray], budgets: Sequence[int]) -> list[slice]:
    """Consecutive rows as slices, each with as many rows as the token budgets allow, at least one.

    ``lengths``: the lengths of all rows, for every side that has a budget.
    """
    ends = [np.cumsum(side) for side in lengths]
    slices: list[slice] = []
    start, rows = 0, len(lengths[0])
    while start < rows:
        used = [side[start - 1] if start else 0 for side in ends]
        stops = [
            int(np.searchsorted(side, tokens + budget, side="right"))
            for side, tokens, budget in zip(ends, used, budgets, strict=True)
        ]
        stop = max(min(stops), start + 1)
        slices.append(slice(start, stop))
        start = stop
    return slices
