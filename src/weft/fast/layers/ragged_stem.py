"""Stems on CUDA: the pictures of a batch end to end, whatever their sizes, instead of groups padded to their largest.

cuDNN makes a plan for each new shape of a batch, and pictures come in ever new sizes: planning took longer than all
else together. Here a shape is a number of places, so nothing is planned, and padding is neither computed nor masked.
The first convolution, whose channels are few, is a product with the values under its kernel.

Plain counterpart: `weft.models.stems.Stem.ragged`. Tested in tests/fast/layers/test_ragged_stem.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.models.layers import dropout
from weft.models.stems import FrameStem, GridStem, Pictures, Stage, Stem, packed_shapes
from weft.packed import HEADER, PackedShape
from weft.ragged import Layout, Ragged

if TYPE_CHECKING:
    from weft.fast.triton.ragged_convolution import Grid

SMALLEST_WIDTH = 16
"""Channels of the smallest product that the kernels compute; other numbers are multiples of it."""
MAX_WIDTH = 2048
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def is_on_gpu(stem: Stem, source: Ragged) -> bool:
    """Whether the kernels are for this stem, and the batch is on a GPU."""
    return source.values.is_cuda and source.rows > 0 and has_kernels(stem)


def has_kernels(stem: Stem) -> bool:
    """Whether the kernels are for the channels of this stem."""
    has_widths = all(width % SMALLEST_WIDTH == 0 and width <= MAX_WIDTH for width in stem.settings.widths)
    return has_widths and stem.norm.weight.dtype in DTYPES


def ragged(stem: Stem, source: Ragged) -> Ragged:
    """The states (N, D) of packed arrays (`weft.packed`)."""
    if isinstance(source, MeasuredPictures):
        stage_grids, sizes = source.stage_grids, []
    else:
        shapes = packed_shapes(source)
        sizes = sizes_of_stages(stem, shapes)
        stage_grids = stage_grids_of(stem, source, sizes)
    grids = stage_grids.grids
    if isinstance(stem, FrameStem):
        values_BCHW = stem.values_of(source.values.to(torch.uint8), source.layout.offsets[:-1] + HEADER, shapes)
        at_N = padded_positions(grids[0], *values_BCHW.shape[2:])
        x_NC = values_BCHW.permute(0, 2, 3, 1).flatten(0, 2).index_select(0, at_N)
    else:
        x_NC = pixels(stem, source.values, stage_grids, grids[0])
    for number, stage in enumerate(stem.stages):
        assert isinstance(stage, Stage)
        x_NC = run_stage(stage, x_NC, grids[number], grids[number + 1], is_first=not number)
    if isinstance(stem, GridStem):
        states_ND = grid_states(stem, x_NC, grids[-1], stage_grids.largest)
    else:
        pictures = padded(x_NC, grids[-1], sizes[-1])
        pictures = pictures._replace(values_BCHW=stem.norm(pictures.values_BCHW))
        states_BHWD, sizes_read = stem.read(pictures), stem.sizes_read(pictures)
        grid = grids[-1] if sizes_read == sizes[-1] else make_grids([sizes_read], source.values.device)[0]
        states_ND = states_BHWD.flatten(0, 2).index_select(0, padded_positions(grid, *states_BHWD.shape[1:3]))
    return Ragged(dropout(states_ND, stem.dropout, stem.training), stage_grids.states)


class StageGrids(NamedTuple):
    """The positions of the pictures of a batch: before a stem, after each of its stages, and of its states."""

    starts_L3B: Tensor
    """The first position, the height and the width of each picture, for every stage (int32)."""
    counts: Sequence[int]
    """All positions of a stage."""
    first_values_B: Tensor
    """The first value of each picture among those of a batch (int64)."""
    largest: tuple[int, int]
    """No picture has more rows or columns of states. What fills up a batch may have."""
    states: Layout

    @property
    def grids(self) -> list[Grid]:
        """The positions of every stage."""
        from weft.fast.triton.ragged_convolution import Grid

        grids = []
        for starts_3B, count in zip(self.starts_L3B, self.counts, strict=True):
            ends_B = starts_3B[0] + starts_3B[1] * starts_3B[2]
            positions_N = torch.arange(count, dtype=torch.int32, device=ends_B.device)
            grids.append(Grid(starts_3B, torch.searchsorted(ends_B, positions_N, right=True, out_int32=True)))
        return grids


class MeasuredPictures(Ragged):
    """Packed pictures whose `StageGrids` are known: the host reads nothing of them. The layout is that of states."""

    def __init__(self, values: Tensor, stage_grids: StageGrids) -> None:
        self.values = values
        self.stage_grids = stage_grids
        self.layout = stage_grids.states


def sizes_of_stages(stem: Stem, shapes: Sequence[PackedShape]) -> list[list[tuple[int, int]]]:
    """Height and width of each picture, before a stem and after each of its stages."""
    sizes = [[stem.size_of(shape) for shape in shapes]]
    for down, across in stem.settings.stages:
        sizes.append([(-(-height // down), -(-width // across)) for height, width in sizes[-1]])
    return sizes


def starts_of(sizes: Sequence[Sequence[tuple[int, int]]]) -> np.ndarray:
    """(stages, 3, B) the first position, the height and the width of pictures of these sizes."""
    sides_L2B = np.array(sizes, dtype=np.int32).reshape(len(sizes), -1, 2).transpose(0, 2, 1)
    areas_LB = sides_L2B[:, 0] * sides_L2B[:, 1]
    starts_LB = areas_LB.cumsum(1, dtype=np.int32) - areas_LB
    return np.ascontiguousarray(np.concatenate([starts_LB[:, None], sides_L2B], axis=1))  # kernels read it in order


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """The array on the device; a GPU does not let the host wait for it."""
    values = torch.from_numpy(array)
    return (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)


def make_grids(sizes: Sequence[Sequence[tuple[int, int]]], device: torch.device) -> list[Grid]:
    """The positions of pictures of these sizes, for every stage; one transfer."""
    no_values, no_states = torch.zeros(0, dtype=torch.int64), Layout(torch.zeros(0, dtype=torch.int64))
    counts = [area(stage) for stage in sizes]
    return StageGrids(on_device(starts_of(sizes), device), counts, no_values, (0, 0), no_states).grids


def stage_grids_of(stem: Stem, source: Ragged, sizes: list[list[tuple[int, int]]]) -> StageGrids:
    """The grids of a batch, by the sizes of its pictures before a stem and after each of its stages."""
    device = source.values.device
    is_grid = isinstance(stem, GridStem)
    lengths_B = torch.tensor([height * width if is_grid else width for height, width in sizes[-1]], dtype=torch.int64)
    largest = max(height for height, _ in sizes[-1]), max(width for _, width in sizes[-1])
    first_values_B = (source.layout.offsets[:-1] + HEADER).numpy()
    return StageGrids(
        on_device(starts_of(sizes), device),
        [area(stage) for stage in sizes],
        on_device(first_values_B, device),
        largest,
        Layout(lengths_B, source.device),
    )


def area(sizes: Sequence[tuple[int, int]]) -> int:
    return sum(height * width for height, width in sizes)


def pixels(stem: Stem, values: Tensor, stage_grids: StageGrids, grid: Grid) -> Tensor:
    """(N, C) what a stem convolves, position by position: 0 is white, 1 is black."""
    channels, device = stem.settings.inputs, values.device
    first_N = (stage_grids.first_values_B - grid.starts_3B[0] * channels)[grid.picture_N]
    at_N = first_N + torch.arange(grid.positions, device=device) * channels
    at_NC = (at_N[:, None] + torch.arange(channels, device=device)).clamp(max=len(values) - 1)  # what fills up a batch
    return 1 - values[at_NC].to(stem.norm.weight.dtype) / 255


def grid_states(stem: GridStem, x_NC: Tensor, grid: Grid, largest: tuple[int, int]) -> Tensor:
    """(N, D) the states of all positions: `GridStem.read` without padding."""
    states_ND: Tensor = stem.projection(nn.LayerNorm.forward(stem.norm, x_NC))
    rows_N, columns_N = rows_and_columns(grid)
    rows_HD, columns_WD = stem.row_positions(largest[0]), stem.column_positions(largest[1])
    rows_ND = rows_HD.index_select(0, rows_N.clamp(max=len(rows_HD) - 1))
    columns_ND = columns_WD.index_select(0, columns_N.clamp(max=len(columns_WD) - 1))
    return states_ND + torch.cat([rows_ND, columns_ND], -1).to(states_ND.dtype)


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


def rows_and_columns(grid: Grid) -> tuple[Tensor, Tensor]:
    """(N,) the row and the column of each position in its picture."""
    starts_B, _, widths_B = grid.starts_3B
    position_N = torch.arange(grid.positions, device=starts_B.device) - starts_B[grid.picture_N]
    widths_N = widths_B[grid.picture_N]
    rows_N = position_N.div(widths_N, rounding_mode="floor")
    return rows_N, position_N - rows_N * widths_N


def padded_positions(grid: Grid, height: int, width: int) -> Tensor:
    """(N,) where each position is among pictures padded to this height and width."""
    rows_N, columns_N = rows_and_columns(grid)
    return (grid.picture_N.long() * height + rows_N) * width + columns_N


def padded(x_NC: Tensor, grid: Grid, sizes: list[tuple[int, int]]) -> Pictures:
    """The pictures padded with zeros to the largest."""
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    empty_NC = x_NC.new_zeros(len(sizes) * height * width, x_NC.shape[1])
    values_NC = empty_NC.index_copy(0, padded_positions(grid, height, width), x_NC)
    return Pictures(values_NC.view(len(sizes), height, width, -1).permute(0, 3, 1, 2), sizes)
