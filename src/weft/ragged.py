"""Ragged: sequences of unequal length laid end to end; the one batch layout of the library.

There is no padding in a Ragged and no mask beside it. Linear layers, norms, embeddings and losses work on its
``values`` and never learn where a sequence ends. Only attention and the recurrent layers do: they ask the
`Layout`, which works out each order once per batch and shares it between layers.

Letters for the axes of a tensor, used as suffixes all over attention/, models/ and search/:

    N tokens end to end   B rows (sequences)   R rows in a search (B × beam)   K beam
    S source positions    T target positions   D width   H heads   V vocabulary   E embedding   G gates
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class TimeMajor(NamedTuple):
    """The order in which a recurrence reads a batch: all first tokens, then all second ones, … longest row first."""

    rows: Tensor
    """(B,) rows from longest to shortest."""
    counts: list[int]
    """How many rows have a first, second, … token; the leading ``counts[t]`` of ``rows`` do at time t."""
    places: Tensor
    """(N,) for each position of this order, its place in the Ragged."""
    back: Tensor
    """(N,) the inverse: for each place in the Ragged, its position in this order."""
    rows_back: Tensor
    """(B,) the inverse of ``rows``."""

    def sort(self, values_ND: Tensor) -> Tensor:
        """Values of a Ragged in this order."""
        return _Permute.apply(values_ND, self.places, self.back)

    def unsort(self, values_ND: Tensor) -> Tensor:
        """Values in this order, back in that of the Ragged."""
        return _Permute.apply(values_ND, self.back, self.places)


class Layout:
    """The lengths of a batch's rows and the index orders that follow from them, computed once and kept."""

    fixed = False
    """Whether this is the layout of a recorded update: nothing but the tensors on the device may be read then, because
    other lengths will stand there when it is replayed. See training/packed.py."""

    def __init__(self, lengths: Tensor, device: torch.device | str = "cpu", *, longest: int | None = None) -> None:
        """``longest``: a bound on the lengths to use in place of the longest there is."""
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

    def _along_rows(self, per_row: Tensor) -> Tensor:
        return torch.from_numpy(np.repeat(per_row.numpy(), self.lengths.numpy()))

    @cached_property
    def _time_cpu(self) -> Tensor:
        return torch.arange(self.total) - self._along_rows(self.offsets[:-1])

    @cached_property
    def row(self) -> Tensor:
        """(N,) the row of every token."""
        return self._along_rows(torch.arange(self.rows)).to(self.device)

    @cached_property
    def time(self) -> Tensor:
        """(N,) the position of every token within its row."""
        return self._time_cpu.to(self.device)

    @cached_property
    def grid(self) -> Tensor:
        """(N,) the place of every token in a (B × longest) grid."""
        return (self._along_rows(torch.arange(self.rows) * self.longest) + self._time_cpu).to(self.device)

    @cached_property
    def blocked_BS(self) -> Tensor:
        """(B, longest) true where a grid has no token, except in rows without any: those hide nothing, because a
        softmax over nothing is not a number. For attention only."""
        return (torch.arange(self.longest) >= self.lengths[:, None].clamp(min=1)).to(self.device)

    @cached_property
    def starts(self) -> Tensor:
        """(B + 1,) `offsets` in 32 bits and on the device, as kernels for sequences of unequal length want them."""
        return self.offsets.to(torch.int32).to(self.device)

    @cached_property
    def counts(self) -> Tensor:
        """(B,) the lengths, on the device."""
        return self.lengths.to(self.device)

    @property
    def even(self) -> bool:
        """Whether all rows have one length: a grid then is the values themselves."""
        return self.total == self.rows * self.longest and not self.fixed

    @property
    def steps(self) -> Tensor:
        """(N,) the place of every token in a (longest × B) grid: step by step."""
        return self.time * self.rows + self.row

    @property
    def steps_back(self) -> Tensor:
        """(N,) the same with every row back to front."""
        return (self.counts[self.row] - 1 - self.time) * self.rows + self.row

    @cached_property
    def time_major(self) -> TimeMajor:
        """The order of a recurrence over this batch."""
        rows = torch.argsort(self.lengths, descending=True, stable=True)
        counts = (self.lengths[:, None] > torch.arange(self.longest)).sum(0)
        times = torch.repeat_interleave(torch.arange(self.longest), counts)
        starts = counts.cumsum(0) - counts
        ranks = torch.arange(self.total) - torch.repeat_interleave(starts, counts)
        places = self.offsets[rows[ranks]] + times
        return TimeMajor(
            rows.to(self.device),
            counts.tolist(),
            places.to(self.device),
            torch.argsort(places).to(self.device),
            torch.argsort(rows).to(self.device),
        )


class _Permute(torch.autograd.Function):
    """A change of order; its gradient is the change back, which is cheaper than adding up by index."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, there: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return values.index_select(0, there)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.index_select(0, ctx.saved_tensors[0]), None, None


class _FromGrid(torch.autograd.Function):
    """Some places of a grid, each at most once; the gradient goes back to them alone, without adding up."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.length = len(flat)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.new_zeros(ctx.length, *gradient.shape[1:])
        return whole.index_copy_(0, ctx.saved_tensors[0], gradient), None


class Ragged:
    """Sequences of unequal length laid end to end: ``values`` (N, …) and their `Layout`."""

    def __init__(self, values: Tensor, layout: Layout) -> None:
        if len(values) != layout.total:
            raise ValueError(f"Ragged: {len(values)} values for lengths that add up to {layout.total}")
        self.values = values
        self.layout = layout

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int] | Tensor], device: torch.device | str = "cpu") -> Ragged:
        """A batch from a list of sequences."""
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

    def grid(self) -> Tensor:
        """(B, longest, …) with zeros after each row's end. For attention and tests, never for a layer that sums."""
        shape = self.values.shape[1:]
        flat = self.values
        if not self.layout.even:
            flat = self.values.new_zeros(self.rows * self.layout.longest, *shape)
            flat = flat.index_copy(0, self.layout.grid, self.values)
        return flat.view(self.rows, self.layout.longest, *shape)

    def from_grid(self, grid_BT: Tensor) -> Ragged:
        """The inverse of `grid`, for values that follow this layout."""
        flat = grid_BT.flatten(0, 1)
        return self.like(flat if self.layout.even else _FromGrid.apply(flat, self.layout.grid))

    def steps(self, back: bool = False) -> Tensor:
        """(longest, B, …) step by step, ``back`` to front or not, with zeros after each row's end."""
        layout = self.layout
        flat = self.values.new_zeros(layout.longest * self.rows, *self.values.shape[1:])
        flat = flat.index_copy(0, layout.steps_back if back else layout.steps, self.values)
        return flat.view(layout.longest, self.rows, *self.values.shape[1:])

    def from_steps(self, grid_TB: Tensor, back: bool = False) -> Ragged:
        """The inverse of `steps`, for values that follow this layout."""
        places = self.layout.steps_back if back else self.layout.steps
        return self.like(_FromGrid.apply(grid_TB.flatten(0, 1), places))

    def means(self) -> Tensor:
        """(B, …) the mean of every row's values."""
        sums = self.values.new_zeros(self.rows, *self.values.shape[1:]).index_add(0, self.layout.row, self.values)
        counts = self.layout.counts.clamp(min=1).to(self.values.dtype)
        return sums / counts.view(-1, *[1] * (self.values.dim() - 1))

    def split(self) -> list[Tensor]:
        """One tensor a row."""
        return list(self.values.split(self.lengths.tolist()))

    def select(self, rows: Tensor) -> Ragged:
        """Some of the rows, in the order given."""
        chosen = rows.to("cpu")
        lengths = self.lengths[chosen]
        layout = Layout(lengths, self.device)
        starts = self.layout.offsets[:-1][chosen]
        return Ragged(self.values[(layout._along_rows(starts) + layout._time_cpu).to(self.device)], layout)

    def reversed(self) -> Ragged:
        """Every row back to front (Sutskever et al. 2014)."""
        last = self.layout._along_rows(self.layout.offsets[1:] - 1)
        return self.like(self.values[(last - self.layout._time_cpu).to(self.device)])

    def empty(self) -> Ragged:
        """As many rows, with nothing in them."""
        return Ragged(self.values[:0], Layout(torch.zeros_like(self.lengths), self.device))

    def shifted(self, first: int) -> Ragged:
        """Every row moved one place to the right behind ``first``: what a decoder reads when it must say this."""
        values = self.values.roll(1)
        starts = self.layout.offsets[:-1][self.lengths > 0].to(self.device)
        values[starts] = first
        return self.like(values)
