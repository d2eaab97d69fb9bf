"""Stems on CUDA: the pictures of a batch end to end, whatever their sizes, instead of groups padded to their largest.

cuDNN makes a plan for each new shape of a batch, and pictures come in ever new sizes: planning took longer than all
else together. Here a shape is a number of places, so nothing is planned, and padding is neither computed nor masked.
The first convolution, whose channels are few, is a product with the values under its kernel.

Plain counterpart: `weft.models.stems.Stem.ragged`. Tested in tests/fast/layers/test_ragged_stem.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from weft.models.layers import dropout
from weft.models.stems import FrameStem, Pictures, Stage, Stem, packed_shapes
from weft.packed import HEADER, PackedShape
from weft.ragged import Layout, Ragged

if TYPE_CHECKING:
    from weft.fast.triton.ragged_convolution import Grid

SMALLEST_WIDTH = 16
"""Channels of the smallest product that the kernels compute; other numbers are multiples of it."""
MAX_WIDTH = 2048
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def is_on_gpu(stem: Stem, source: Ragged) -> bool:
    """Whether the kernels are for this stem."""
    has_widths = all(width % SMALLEST_WIDTH == 0 and width <= MAX_WIDTH for width in stem.settings.widths)
    return source.values.is_cuda and source.rows > 0 and has_widths and stem.norm.weight.dtype in DTYPES


def ragged(stem: Stem, source: Ragged) -> Ragged:
    """The states (N, D) of packed arrays (`weft.packed`)."""
    shapes = packed_shapes(source)
    sizes = [[stem.size_of(shape) for shape in shapes]]
    for down, across in stem.settings.stages:
        sizes.append([(-(-height // down), -(-width // across)) for height, width in sizes[-1]])
    grids = make_grids(sizes, source.values.device)
    x_NC = pixels(stem, source, shapes, grids[0])
    for number, stage in enumerate(stem.stages):
        assert isinstance(stage, Stage)
        x_NC = run_stage(stage, x_NC, grids[number], grids[number + 1], is_first=not number)
    pictures = padded(x_NC, grids[-1], sizes[-1])
    pictures = pictures._replace(values_BCHW=stem.norm(pictures.values_BCHW))
    states_BHWD, sizes_read = stem.read(pictures), stem.sizes_read(pictures)
    grid = grids[-1] if sizes_read == sizes[-1] else make_grids([sizes_read], source.values.device)[0]
    states_ND = states_BHWD.flatten(0, 2).index_select(0, padded_positions(grid, *states_BHWD.shape[1:3]))
    lengths_B = torch.tensor([height * width for height, width in sizes_read], dtype=torch.int64)
    return Ragged(dropout(states_ND, stem.dropout, stem.training), Layout(lengths_B, source.device))


def make_grids(sizes: Sequence[Sequence[tuple[int, int]]], device: torch.device) -> list[Grid]:
    """The positions of pictures of these sizes, for every stage; one transfer."""
    from weft.fast.triton.ragged_convolution import Grid

    rows = []
    for stage in sizes:
        ends = [*accumulate((height * width for height, width in stage), initial=0)]
        rows.append([ends[:-1], *map(list, zip(*stage, strict=True))])
    on_host_L3B = torch.tensor(rows, dtype=torch.int32)
    if device.type == "cuda":
        on_host_L3B = on_host_L3B.pin_memory()
    starts_L3B = on_host_L3B.to(device, non_blocking=True)
    pictures_B = torch.arange(len(sizes[0]), dtype=torch.int32, device=device)
    return [
        Grid(starts_3B, pictures_B.repeat_interleave(starts_3B[1] * starts_3B[2], output_size=area(stage)))
        for stage, starts_3B in zip(sizes, starts_L3B, strict=True)
    ]


def area(sizes: Sequence[tuple[int, int]]) -> int:
    return sum(height * width for height, width in sizes)


def pixels(stem: Stem, source: Ragged, shapes: Sequence[PackedShape], grid: Grid) -> Tensor:
    """(N, C) what a stem convolves, position by position."""
    starts_B = source.layout.offsets[:-1] + HEADER
    if isinstance(stem, FrameStem):
        values_BCHW = stem.values_of(source.values.to(torch.uint8), starts_B, shapes)
        at_N = padded_positions(grid, *values_BCHW.shape[2:])
        return values_BCHW.permute(0, 2, 3, 1).flatten(0, 2).index_select(0, at_N)
    channels, device = shapes[0].channels, source.values.device
    first_N = (starts_B.to(device) - grid.starts_3B[0] * channels)[grid.picture_N]
    at_N = first_N + torch.arange(grid.positions, device=device) * channels
    bytes_NC = source.values[at_N[:, None] + torch.arange(channels, device=device)]
    return 1 - bytes_NC.to(stem.norm.weight.dtype) / 255


def run_stage(stage: Stage, x_NC: Tensor, before: Grid, after: Grid, *, is_first: bool) -> Tensor:
    """A convolution with stride, then residual blocks; `weft.models.stems.Stage`."""
    from weft.fast.triton.norm_relu import norm_relu
    from weft.fast.triton.ragged_convolution import Tables, convolution, neighbors

    strided: Any = stage.convolution
    table_TN = neighbors(after, before, strided.kernel_size, stage.stride)
    if is_first:
        x_NC = few_channels(x_NC, strided.weight, strided.bias, table_TN)
    else:
        inverse_TN = None
        if torch.is_grad_enabled():
            inverse_TN = neighbors(before, after, strided.kernel_size, stage.stride, is_inverse=True)
        x_NC = convolution(x_NC, strided.weight, strided.bias, Tables(table_TN, inverse_TN))
    if not len(stage.blocks):
        return x_NC
    tables = Tables(neighbors(after, after, strided.kernel_size, (1, 1)), None)
    for block in stage.blocks:
        inner_NC = x_NC
        for norm, layer, residual_NC in zip(block.norms, block.convolutions, (None, x_NC), strict=True):  # type: ignore[arg-type]
            inner_NC = norm_relu(inner_NC, norm.weight, norm.bias, norm.eps)
            inner_NC = convolution(inner_NC, layer.weight, layer.bias, tables, residual_NC)
        x_NC = inner_NC
    return x_NC


def few_channels(x_NC: Tensor, weight: Tensor, bias_O: Tensor, table_TN: Tensor) -> Tensor:
    """A convolution of pixels, whose gradient nobody needs: the values under the kernel, times its weights."""
    with torch.no_grad():
        with_outside = torch.cat([x_NC, x_NC.new_zeros(1, x_NC.shape[1])])  # outside is the last row, -1
        under_NTC = with_outside[table_TN.T.long()]
    return functional.linear(under_NTC.flatten(1), weight.flatten(2).transpose(1, 2).flatten(1), bias_O)


def padded_positions(grid: Grid, height: int, width: int) -> Tensor:
    """(N,) where each position is among pictures padded to this height and width."""
    starts_B, _, widths_B = grid.starts_3B
    position_N = torch.arange(grid.positions, device=starts_B.device) - starts_B[grid.picture_N]
    widths_N = widths_B[grid.picture_N]
    rows_N = position_N.div(widths_N, rounding_mode="floor")
    return (grid.picture_N.long() * height + rows_N) * width + position_N - rows_N * widths_N


def padded(x_NC: Tensor, grid: Grid, sizes: list[tuple[int, int]]) -> Pictures:
    """The pictures padded with zeros to the largest."""
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    empty_NC = x_NC.new_zeros(len(sizes) * height * width, x_NC.shape[1])
    values_NC = empty_NC.index_copy(0, padded_positions(grid, height, width), x_NC)
    return Pictures(values_NC.view(len(sizes), height, width, -1).permute(0, 3, 1, 2), sizes)
