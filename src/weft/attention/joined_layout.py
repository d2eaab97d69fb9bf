"""The layout of rows that have two parts end to end, such as the source and the target of a prefix language model."""

from __future__ import annotations

from weft.ragged import CapturableLayout, DeviceLayout, FixedLayout, Layout


def join_layouts(first: Layout, second: Layout) -> Layout:
    """Each row of the first layout, followed by that of the second."""
    if isinstance(first, FixedLayout) or isinstance(second, FixedLayout):
        return JoinedLayout(first, second)
    return Layout(first.lengths + second.lengths, first.device)


class JoinedLayout(CapturableLayout, DeviceLayout):
    """The joined layout for updates that are replayed as CUDA graphs. ``longest`` is a bound."""

    def __init__(self, first: Layout, second: Layout) -> None:
        self.device = first.device
        self.rows, self.total = first.rows, first.total + second.total
        self.longest = first.longest + second.longest
        self.device_lengths = first.device_lengths + second.device_lengths
