"""x + f and its norm in one kernel, for steps of a search on a GPU. Loaded only where there is a GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 8192


@triton.jit
def _add_norm(  # type: ignore[no-untyped-def]
    stream,
    added,
    weight,
    bias,
    total,
    normed,
    width,
    epsilon,
    is_layer: tl.constexpr,
    tile: tl.constexpr,
):
    row = tl.program_id(0)
    d = tl.arange(0, tile)
    there = d < width
    at = row * width + d
    x = tl.load(stream + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(added + at, mask=there, other=0.0).to(tl.float32)
    tl.store(total + at, x.to(total.dtype.element_ty), mask=there)
    if is_layer:
        x = tl.where(there, x - tl.sum(x, 0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / width + epsilon)
    y = x * scale * tl.load(weight + d, mask=there, other=0.0).to(tl.float32)
    if is_layer:
        y += tl.load(bias + d, mask=there, other=0.0).to(tl.float32)
    tl.store(normed + at, y.to(normed.dtype.element_ty), mask=there)


def add_norm(
    stream_ND: Tensor, added_ND: Tensor, weight_D: Tensor, bias_D: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """x + f, and LayerNorm(x + f) or, without a bias, RMSNorm(x + f)."""
    rows, width = stream_ND.shape
    stream_ND, added_ND = stream_ND.contiguous(), added_ND.contiguous()
    total_ND, normed_ND = torch.empty_like(stream_ND), torch.empty_like(stream_ND)
    tile = triton.next_power_of_2(width)
    _add_norm[(rows,)](
        stream_ND,
        added_ND,
        weight_D,
        weight_D if bias_D is None else bias_D,
        total_ND,
        normed_ND,
        width,
        epsilon,
        is_layer=bias_D is not None,
        tile=tile,
        num_warps=4 if tile >= 1024 else 2,
    )
    return total_ND, normed_ND
