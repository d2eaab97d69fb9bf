"""Dropout whose mask is a function of a seed, so that a backward pass computes it again instead of storing it.

Plain counterpart: `torch.nn.functional.dropout`, with other masks. Tested in tests/fast/triton/test_dropout.py.

16 bits of Philox-4x32-7 (Salmon et al. 2011) decide on one value, so that the probability is rounded to 1/65536. The
seed is drawn from PyTorch's generator of the device: the same state of it gives the same masks.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def keep(seed, n, threshold, tile_r: tl.constexpr, tile_w: tl.constexpr):  # type: ignore[no-untyped-def]
    """The dropout mask of some rows: True where a value is kept."""
    counter = n[:, None] * (tile_w // 8) + tl.arange(0, tile_w // 8)[None, :]
    a, b, c, d = tl.randint4x(seed, counter, 7)
    words = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (tile_r, tile_w // 2)).to(tl.uint32, bitcast=True)
    bits = tl.reshape(tl.join(words & 0xFFFF, words >> 16), (tile_r, tile_w)).to(tl.int32)
    return bits >= threshold


@triton.jit
def _drop(  # type: ignore[no-untyped-def]
    values, seeds, dropped, rows, width, threshold, factor, tile_r: tl.constexpr, tile_w: tl.constexpr
):
    n = tl.program_id(0) * tile_r + tl.arange(0, tile_r)
    d = tl.arange(0, tile_w)
    valid = (n < rows)[:, None] & (d < width)[None, :]
    index = n.to(tl.int64)[:, None] * width + d[None, :]
    x = tl.load(values + index, mask=valid, other=0.0).to(tl.float32)
    x = tl.where(keep(tl.load(seeds), n, threshold, tile_r, tile_w), x * factor, 0.0)
    tl.store(dropped + index, x.to(dropped.dtype.element_ty), mask=valid)


class Dropout(NamedTuple):
    """A dropout probability and the seed of one mask."""

    probability: float
    seed_1: Tensor

    @property
    def threshold(self) -> int:
        return round(self.probability * 65_536)

    @property
    def factor(self) -> float:
        return 1.0 / (1.0 - self.probability)


def draw_dropout(probability: float, device: torch.device) -> Dropout | None:
    """The dropout of one call, with a seed from PyTorch's generator; None if there is none."""
    if probability == 0.0:
        return None
    return Dropout(probability, torch.randint(2**62, (1,), device=device))


def row_tiles(width: int) -> dict[str, int]:
    """The tile of a program: whole rows, 1,024 values where that is more than one."""
    tile_w = max(triton.next_power_of_2(width), 8)
    tile_r = max(1024 // tile_w, 1)
    return {"tile_r": tile_r, "tile_w": tile_w, "num_warps": tile_r * tile_w // 512}


def drop(values_ND: Tensor, dropout: Dropout) -> Tensor:
    """The values with dropout; of a gradient, its backward pass."""
    rows, width = values_ND.shape
    values_ND = values_ND.contiguous()
    dropped_ND = torch.empty_like(values_ND)
    tiles = row_tiles(width)
    grid = (triton.cdiv(rows, tiles["tile_r"]),)
    _drop[grid](values_ND, dropout.seed_1, dropped_ND, rows, width, *dropout_options(dropout), **tiles)
    return dropped_ND


def dropout_options(dropout: Dropout | None) -> tuple[int, float]:
    """The threshold and the factor that a kernel is given."""
    return (0, 1.0) if dropout is None else (dropout.threshold, dropout.factor)
