"""Σ_n x_nd: the gradient of a bias, and the last stage of every kernel that sums over the rows of a matrix.

Plain counterpart: ``matrix_ND.sum(0)`` in single precision. Tested in tests/fast/triton/test_column_sums.py.

Each of P programs sums every P-th block of rows; a second kernel adds their sums, always in the same order.
PyTorch's reduction over the first axis reaches a third of the memory bandwidth for matrices of these shapes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

PARTS = 66
"""Partial sums: half the multiprocessors of an H200. Of narrow matrices, which have one tile of columns, four times."""
NARROW = 128
TILES = {64: (128, 64), NARROW: (64, 128), 1024: (32, 256), 1 << 30: (16, 512)}
"""The rows and columns that a program reads at a time, by the largest width of a matrix."""


@triton.jit
def _partial_sums(  # type: ignore[no-untyped-def]
    matrix, partials, rows, width, stride, tile_r: tl.constexpr, tile_w: tl.constexpr
):
    part, parts = tl.program_id(0), tl.num_programs(0)
    d = tl.program_id(1) * tile_w + tl.arange(0, tile_w)
    total = tl.zeros((tile_r, tile_w), tl.float32)
    for first in range(part * tile_r, rows, parts * tile_r):
        n = first + tl.arange(0, tile_r)
        valid = (n < rows)[:, None] & (d < width)[None, :]
        total += tl.load(matrix + n.to(tl.int64)[:, None] * stride + d[None, :], mask=valid, other=0.0).to(tl.float32)
    tl.store(partials + part * width + d, tl.sum(total, 0), mask=d < width)


@triton.jit
def _add_partials(  # type: ignore[no-untyped-def]
    partials, sums, parts, width, tile_p: tl.constexpr, tile_w: tl.constexpr
):
    which = tl.program_id(1)
    d = tl.program_id(0) * tile_w + tl.arange(0, tile_w)
    total = tl.zeros((tile_p, tile_w), tl.float32)
    for first in range(0, parts, tile_p):
        p = first + tl.arange(0, tile_p)
        valid = (p < parts)[:, None] & (d < width)[None, :]
        total += tl.load(partials + (which * parts + p)[:, None] * width + d[None, :], mask=valid, other=0.0)
    tl.store(sums + which * width + d, tl.sum(total, 0), mask=d < width)


def add_partials(partials_KPD: Tensor) -> Tensor:
    """(K, D) the sums over P of (K, P, D), in single precision."""
    count, parts, width = partials_KPD.shape
    sums_KD = torch.empty((count, width), dtype=torch.float32, device=partials_KPD.device)
    _add_partials[(triton.cdiv(width, 8), count)](
        partials_KPD, sums_KD, parts, width, tile_p=512, tile_w=8, num_warps=8
    )
    return sums_KD


def column_sums(matrix_ND: Tensor) -> Tensor:
    """(D,) the sums of the columns, in single precision."""
    rows, width = matrix_ND.shape
    assert matrix_ND.stride(1) == 1
    parts = PARTS if width > NARROW else 4 * PARTS
    partials_1PD = torch.empty((1, parts, width), dtype=torch.float32, device=matrix_ND.device)
    tile_r, tile_w = next(tile for limit, tile in TILES.items() if width <= limit)
    _partial_sums[(parts, triton.cdiv(width, tile_w))](
        matrix_ND, partials_1PD, rows, width, matrix_ND.stride(0), tile_r=tile_r, tile_w=tile_w, num_warps=8
    )
    return add_partials(partials_1PD)[0]
