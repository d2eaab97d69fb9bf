"""x + f and its norm in one kernel, for search steps on CUDA.

Plain counterpart: the last two lines of `weft.fast.steps.cached_transformer.add_and_normalize`. Tested in
tests/fast/triton/test_add_norm.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_WIDTH = 8192


@triton.jit
def _add_norm(  # type: ignore[no-untyped-def]
    stream, output, weight, bias, sum_, normalized, width, epsilon, is_layer_norm: tl.constexpr, tile: tl.constexpr
):
    row = tl.program_id(0)
    d = tl.arange(0, tile)
    valid = d < width
    index = row * width + d
    x = tl.load(stream + index, mask=valid, other=0.0).to(tl.float32)
    x += tl.load(output + index, mask=valid, other=0.0).to(tl.float32)
    tl.store(sum_ + index, x.to(sum_.dtype.element_ty), mask=valid)
    if is_layer_norm:
        x = tl.where(valid, x - tl.sum(x, 0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / width + epsilon)
    y = x * scale * tl.load(weight + d, mask=valid, other=0.0).to(tl.float32)
    if is_layer_norm:
        y += tl.load(bias + d, mask=valid, other=0.0).to(tl.float32)
    tl.store(normalized + index, y.to(normalized.dtype.element_ty), mask=valid)


def add_norm(
    stream_ND: Tensor, output_ND: Tensor, weight_D: Tensor, bias_D: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """x + f, and LayerNorm(x + f) or, without a bias, RMSNorm(x + f)."""
    rows, width = stream_ND.shape
    stream_ND, output_ND = stream_ND.contiguous(), output_ND.contiguous()
    sum_ND, normalized_ND = torch.empty_like(stream_ND), torch.empty_like(stream_ND)
    tile = triton.next_power_of_2(width)
    _add_norm[(rows,)](
        stream_ND,
        output_ND,
        weight_D,
        weight_D if bias_D is None else bias_D,
        sum_ND,
        normalized_ND,
        width,
        epsilon,
        is_layer_norm=bias_D is not None,
        tile=tile,
        num_warps=4 if tile >= 1024 else 2,
    )
    return sum_ND, normalized_ND
