"""Stems: the convolutions by which a picture, or frames, becomes the sequence of vectors that an encoder reads.

A stem takes the place of the source embedding. Each stage is a convolution with stride, then residual blocks:

    x ← W * x                                 stride s: a side of n becomes ⌈n / s⌉
    x ← x + W₂ * ρ(W₁ * ρ(x)),  ρ(x) = max(0, norm(x))      He et al. 2016; norm: over the channels of each place

    columns   one vector for each column: the means of K ranges of its height, projected
    grid      one vector for each place, row by row, plus sinusoids of its row and its column    Parmar et al. 2018
    frames    convolutions over time alone; the features of a frame are the channels

Pictures of a batch are padded to the largest among those of similar size, and whatever is outside of a picture is set
to zero before each convolution: exactly the zeros that a convolution assumes around a single picture. No norm is taken
over a batch or a picture. So the states of a picture do not depend on its company.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.models.architecture import EmbeddingShape
from weft.models.layers import dropout
from weft.models.positions import SinusoidTable
from weft.packed import HEADER, PackedShape, shapes_of
from weft.ragged import Layout, Ragged
from weft.recipe.choices import STEMS, resolve
from weft.recipe.stem import StemSettings
from weft.runtime.replaceable import replaceable

MAX_PADDING = 2.0
"""Pictures are convolved together while they take at most this many times their own area."""


class Pictures(NamedTuple):
    """Pictures of similar size, padded with zeros to the largest."""

    values_BCHW: Tensor
    sizes: list[tuple[int, int]]
    """Height and width of each."""

    @property
    def mask_B1HW(self) -> Tensor:
        """1 inside of each picture, 0 in its padding."""
        device, (height, width) = self.values_BCHW.device, self.values_BCHW.shape[2:]
        sizes_B2 = torch.tensor(self.sizes, device=device)
        rows_BH = torch.arange(height, device=device) < sizes_B2[:, :1]
        columns_BW = torch.arange(width, device=device) < sizes_B2[:, 1:]
        return (rows_BH[:, None, :, None] & columns_BW[:, None, None, :]).to(self.values_BCHW.dtype)


class Convolution(nn.Conv2d):
    """A convolution over pictures, with the zeros around a picture also where another one is larger."""

    def __init__(self, inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> None:
        padding = kernel[0] // 2, kernel[1] // 2
        super().__init__(inputs, outputs, kernel, stride, padding)

    def forward(self, values_BCHW: Tensor, mask_B1HW: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(values_BCHW * mask_B1HW)


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of each place."""

    def forward(self, values_BCHW: Tensor) -> Tensor:
        return super().forward(values_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ResidualConvolutions(nn.Module):
    """x + W₂ * ρ(W₁ * ρ(x))"""

    def __init__(self, width: int, kernel: tuple[int, int]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(ChannelNorm(width) for _ in range(2))
        self.convolutions = nn.ModuleList(Convolution(width, width, kernel) for _ in range(2))

    def forward(self, values_BCHW: Tensor, mask_B1HW: Tensor) -> Tensor:
        inner_BCHW = values_BCHW
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            inner_BCHW = convolution(norm(inner_BCHW).relu(), mask_B1HW)
        return values_BCHW + inner_BCHW


class Stage(nn.Module):
    """A convolution with stride, then residual blocks."""

    def __init__(
        self, inputs: int, width: int, stride: tuple[int, int], *, blocks: int, kernel: tuple[int, int]
    ) -> None:
        super().__init__()
        self.convolution = Convolution(inputs, width, kernel, stride)
        self.blocks = nn.ModuleList(ResidualConvolutions(width, kernel) for _ in range(blocks))
        self.stride = stride

    def forward(self, pictures: Pictures) -> Pictures:
        down, across = self.stride
        sizes = [(-(-height // down), -(-width // across)) for height, width in pictures.sizes]
        smaller = Pictures(self.convolution(pictures.values_BCHW, pictures.mask_B1HW), sizes)
        values_BCHW, mask_B1HW = smaller.values_BCHW, smaller.mask_B1HW
        for block in self.blocks:
            values_BCHW = block(values_BCHW, mask_B1HW)
        return smaller._replace(values_BCHW=values_BCHW)


class Stem(nn.Module):
    """Stages of convolutions, and what reads the sequence of states off their result."""

    columns = 1
    """Number of source columns that it distinguishes."""
    kernel = (3, 3)

    def __init__(self, settings: StemSettings, *, width: int, dropout: float) -> None:
        """``width``: of the states; ``dropout``: of them."""
        super().__init__()
        inputs = [settings.inputs, *settings.widths[:-1]]
        self.stages = nn.ModuleList(
            Stage(before, after, stride, blocks=settings.blocks, kernel=self.kernel)
            for before, after, stride in zip(inputs, settings.widths, settings.stages, strict=True)
        )
        self.norm = ChannelNorm(settings.widths[-1])
        self.projection = nn.Linear(settings.widths[-1] * self.vectors_of(settings), width)
        self.settings, self.width, self.dropout = settings, width, dropout

    @staticmethod
    def vectors_of(settings: StemSettings) -> int:
        """Vectors of the last stage that make one state."""
        return 1

    def shape(self, module: str) -> EmbeddingShape:
        """``module``: the name of the module in the model."""
        return EmbeddingShape(module, 0, self.width, fixed_shapes=False)

    @replaceable
    def ragged(self, source: Ragged) -> Ragged:
        """The states (N, D) of packed arrays (`weft.packed`)."""
        shapes = packed_shapes(source)
        sizes = [self.size_of(shape) for shape in shapes]
        starts, bytes_N = source.layout.offsets + HEADER, source.values.to(torch.uint8)
        states_ND, lengths, order = [self.norm.weight.new_zeros(0, self.width)], [], []
        for rows in similar_sizes(sizes):
            values_BCHW = self.values_of(bytes_N, starts[rows], [shapes[row] for row in rows])
            pictures = Pictures(values_BCHW, [sizes[row] for row in rows])
            for stage in self.stages:
                pictures = stage(pictures)
            pictures = pictures._replace(values_BCHW=self.norm(pictures.values_BCHW))
            states_ND.append(inside(self.read(pictures), self.sizes_read(pictures)))
            lengths += [height * width for height, width in self.sizes_read(pictures)]
            order += rows
        sorted_by_size = Ragged(torch.cat(states_ND), Layout(torch.tensor(lengths, dtype=torch.int64), source.device))
        states = sorted_by_size.select(torch.tensor(order, dtype=torch.int64).argsort())
        return states.map(lambda values_ND: dropout(values_ND, self.dropout, self.training))

    def size_of(self, shape: PackedShape) -> tuple[int, int]:
        """Height and width of a picture."""
        return shape.height, shape.width

    def values_of(self, bytes_N: Tensor, starts_B: Tensor, shapes: Sequence[PackedShape]) -> Tensor:
        """The values (B, C, H, W) of pictures that start at these bytes: 0 is white, 1 is black, padding is 0."""
        channels, device = shapes[0].channels, bytes_N.device
        sizes_B2 = torch.tensor([(shape.height, shape.width) for shape in shapes])
        height, width = sizes_B2.amax(0).tolist()
        rows_H, columns_W = torch.arange(height, device=device), torch.arange(width, device=device)
        heights_B11, widths_B11 = sizes_B2.to(device)[:, :, None, None].unbind(1)
        inside_BHW = (rows_H[:, None] < heights_B11) & (columns_W < widths_B11)
        pixels_BHW = (rows_H[:, None] * widths_B11 + columns_W) * inside_BHW
        bytes_BHWC = starts_B.to(device)[:, None, None, None] + pixels_BHW[..., None] * channels
        values_BHWC = bytes_N[bytes_BHWC + torch.arange(channels, device=device)].to(self.norm.weight.dtype)
        return ((1 - values_BHWC / 255) * inside_BHW[..., None]).permute(0, 3, 1, 2)

    def read(self, pictures: Pictures) -> Tensor:
        """The states (B, H, W, D) of pictures."""
        raise NotImplementedError

    def sizes_read(self, pictures: Pictures) -> list[tuple[int, int]]:
        """Rows and columns of the states of each picture."""
        return [(1, width) for _, width in pictures.sizes]


class ColumnStem(Stem):
    """A picture as the sequence of its columns."""

    @staticmethod
    def vectors_of(settings: StemSettings) -> int:
        return settings.bins

    def read(self, pictures: Pictures) -> Tensor:
        values_BCHW = pictures.values_BCHW
        heights_B = torch.tensor([height for height, _ in pictures.sizes])
        shares_BKH = bin_shares(heights_B, self.settings.bins, values_BCHW.shape[2])
        means_BWKC = torch.einsum("bkh,bchw->bwkc", shares_BKH.to(values_BCHW), values_BCHW)
        states_BWD: Tensor = self.projection(means_BWKC.flatten(2))
        return states_BWD[:, None]


class GridStem(Stem):
    """A picture as the sequence of its places, row by row, with positions in two dimensions."""

    def __init__(self, settings: StemSettings, *, width: int, dropout: float) -> None:
        super().__init__(settings, width=width, dropout=dropout)
        self.row_positions = SinusoidTable(width // 2)
        self.column_positions = SinusoidTable(width - width // 2)

    def read(self, pictures: Pictures) -> Tensor:
        states_BHWD = self.projection(pictures.values_BCHW.permute(0, 2, 3, 1))
        height, width = states_BHWD.shape[1:3]
        rows_HWD = self.row_positions(height)[:height, None].expand(-1, width, -1)
        columns_HWD = self.column_positions(width)[None, :width].expand(height, -1, -1)
        positions_HWD: Tensor = torch.cat([rows_HWD, columns_HWD], -1).to(states_BHWD.dtype)
        return states_BHWD + positions_HWD

    def sizes_read(self, pictures: Pictures) -> list[tuple[int, int]]:
        return pictures.sizes


class FrameStem(Stem):
    """Frames as a shorter sequence: a picture of height 1, whose channels are the features."""

    kernel = (1, 3)

    def size_of(self, shape: PackedShape) -> tuple[int, int]:
        return 1, shape.height

    def values_of(self, bytes_N: Tensor, starts_B: Tensor, shapes: Sequence[PackedShape]) -> Tensor:
        """The values (B, C, 1, W) of frames; bytes from 0 to 1."""
        longest, features, device = max(shape.height for shape in shapes), shapes[0].width, bytes_N.device
        values_BTF = self.norm.weight.new_zeros(len(shapes), longest, features, device=device)
        for values_TF, start, shape in zip(values_BTF, starts_B.tolist(), shapes, strict=True):
            dtype: torch.dtype = getattr(torch, shape.dtype)
            count = shape.height * shape.width * dtype.itemsize
            frames_TF = bytes_N[start : start + count].clone().view(dtype).view(shape.height, shape.width)
            values_TF[: shape.height] = frames_TF / 255 if dtype == torch.uint8 else frames_TF
        return values_BTF.transpose(1, 2)[:, :, None]

    def read(self, pictures: Pictures) -> Tensor:
        states_BWD: Tensor = self.projection(pictures.values_BCHW[:, :, 0].transpose(1, 2))
        return states_BWD[:, None]


def inside(states_BHWD: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """The states (N, D) inside of pictures of these sizes, one picture after the other, row by row."""
    height, width = states_BHWD.shape[1:3]
    sizes_B2 = np.array(sizes)
    inside_BHW = np.arange(height)[:, None] < sizes_B2[:, :1, None]
    inside_BHW = inside_BHW & (np.arange(width) < sizes_B2[:, 1:, None])
    places_N = torch.from_numpy(np.flatnonzero(inside_BHW)).to(states_BHWD.device)
    return states_BHWD.flatten(0, 2).index_select(0, places_N)


def packed_shapes(source: Ragged) -> list[PackedShape]:
    """The shapes of packed arrays."""
    starts_B = source.layout.offsets[:-1]
    headers_BH = source.values[(starts_B[:, None] + torch.arange(HEADER)).to(source.device)]
    return shapes_of(headers_BH.cpu().numpy())


def similar_sizes(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Rows to pad together, from the smallest to the largest: at most `MAX_PADDING` times the area that they have."""
    rows: list[int] = []
    area = height = width = 0
    for row in sorted(range(len(sizes)), key=lambda row: (sizes[row][1], sizes[row][0])):
        new_height, new_width = max(height, sizes[row][0]), max(width, sizes[row][1])
        own = sizes[row][0] * sizes[row][1]
        if rows and (len(rows) + 1) * new_height * new_width > MAX_PADDING * (area + own):
            yield rows
            rows, area, (new_height, new_width) = [], 0, sizes[row]
        rows.append(row)
        area, height, width = area + own, new_height, new_width
    if rows:
        yield rows


def bin_shares(heights_B: Tensor, bins: int, rows: int) -> Tensor:
    """(B, bins, rows) how much each row counts in the mean of each of ``bins`` equal ranges of a height."""
    edges_BK = torch.arange(bins + 1, dtype=torch.float32) * heights_B[:, None] / bins
    tops_H = torch.arange(rows, dtype=torch.float32)
    ends_BKH = torch.minimum(tops_H + 1, edges_BK[:, 1:, None])
    overlaps_BKH = ends_BKH - torch.maximum(tops_H, edges_BK[:, :-1, None])
    return overlaps_BKH.clamp(min=0) * bins / heights_B[:, None, None]


def make_stem(settings: StemSettings, *, width: int, dropout: float) -> Stem:
    """The stem of a recipe."""
    stem: Stem = resolve(STEMS, settings.kind)(settings, width=width, dropout=dropout)
    return stem
