"""The layout of rows that have two parts end to end, such as the source and the target of a prefix language model."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from weft.ragged import FixedLayout, Layout, PaddedTimeMajor


def join_layouts(first: Layout, second: Layout) -> Layout:
    """Each row of the first layout, followed by that of the second."""
    if isinstance(first, FixedLayout) or isinstance(second, FixedLayout):
        return JoinedLayout(first, second)
    return Layout(first.lengths + second.lengths, first.device)


class JoinedLayout(Layout):
    """The same for updates that are replayed as CUDA graphs: everything is computed on the device, and no shape depends
    on the lengths. ``longest`` is a bound."""

    def __init__(self, first: Layout, second: Layout) -> None:
        self.device = first.device
        self.rows, self.total = first.rows, first.total + second.total
        self.longest = first.longest + second.longest
        self.device_lengths = first.device_lengths + second.device_lengths
        self.device_offsets = functional.pad(self.device_lengths.cumsum(0), (1, 0)).to(torch.int32)

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

    @property
    def is_rectangular(self) -> bool:
        return False

    @property
    def time_major(self) -> PaddedTimeMajor:
        return PaddedTimeMajor(self)
