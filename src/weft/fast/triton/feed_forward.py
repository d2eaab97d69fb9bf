"""Linear layers and the feed-forward network with ReLU in half precision, for training on CUDA.

Plain counterparts: `torch.nn.functional.linear` under autocast, and the plain path of
`weft.models.transformer.FeedForward`. Tested in tests/fast/triton/test_feed_forward.py.

The products are cuBLAS's: bias and ReLU are part of the product, and gradients of weights are computed in single
precision instead of being rounded and converted. The gradient of the ReLU is taken in place, by the kernel that sums
the gradient of the bias.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.layers.layer_kernels import to_half
from weft.fast.torch_private import addmm_activation
from weft.fast.triton.column_sums import add_partials, column_sums

PARTS, ROWS, COLUMNS = 132, 8, 512
"""Launch parameters of `_mask_and_sum`, as in column_sums.py."""


@triton.jit
def _mask_and_sum(  # type: ignore[no-untyped-def]
    gradient, activated, partials, rows, width, tile_r: tl.constexpr, tile_w: tl.constexpr
):
    """``gradient`` is set to zero where ``activated`` is, and summed over the rows."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    d = tl.program_id(1) * tile_w + tl.arange(0, tile_w)
    total = tl.zeros((tile_r, tile_w), tl.float32)
    for first in range(part * tile_r, rows, parts * tile_r):
        n = first + tl.arange(0, tile_r)
        valid = (n < rows)[:, None] & (d < width)[None, :]
        index = n.to(tl.int64)[:, None] * width + d[None, :]
        dy = tl.load(gradient + index, mask=valid, other=0.0)
        y = tl.load(activated + index, mask=valid, other=0.0)
        dy = tl.where(y.to(tl.float32) > 0.0, dy.to(tl.float32), 0.0)
        tl.store(gradient + index, dy.to(gradient.dtype.element_ty), mask=valid)
        total += dy
    tl.store(partials + part * width + d, tl.sum(total, 0), mask=d < width)


def relu_backward_(gradient_ND: Tensor, activated_ND: Tensor) -> Tensor:
    """The gradient of the input of a ReLU, in place of that of its output, and its sum over the rows (D,)."""
    rows, width = gradient_ND.shape
    assert gradient_ND.is_contiguous() and activated_ND.is_contiguous()
    partials_1PD = torch.empty((1, PARTS, width), dtype=torch.float32, device=gradient_ND.device)
    grid = (PARTS, triton.cdiv(width, COLUMNS))
    _mask_and_sum[grid](gradient_ND, activated_ND, partials_1PD, rows, width, tile_r=ROWS, tile_w=COLUMNS, num_warps=4)
    return add_partials(partials_1PD)[0]


def weight_gradient(gradient_NG: Tensor, inputs_ND: Tensor, weight_GD: Tensor) -> Tensor:
    """Σ_n g_n x_nᵀ in the precision of the weight."""
    return torch.mm(gradient_NG.t(), inputs_ND, out_dtype=weight_GD.dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs_ND: Tensor, weight_GD: Tensor, bias_G: Tensor) -> Tensor:
        dtype = inputs_ND.dtype
        cast_GD = to_half(weight_GD, dtype)
        ctx.save_for_backward(inputs_ND, weight_GD, cast_GD)
        return torch.addmm(to_half(bias_G, dtype), inputs_ND, cast_GD.t())

    @staticmethod
    def backward(ctx: Any, gradient_NG: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs_ND, weight_GD, cast_GD = ctx.saved_tensors
        gradient_NG = gradient_NG.contiguous()
        d_weight_GD = weight_gradient(gradient_NG, inputs_ND, weight_GD)
        return gradient_NG @ cast_GD, d_weight_GD, column_sums(gradient_NG).to(weight_GD.dtype)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, stream_ND: Tensor, weight1_FD: Tensor, bias1_F: Tensor, weight2_DF: Tensor, bias2_D: Tensor
    ) -> Tensor:
        dtype = stream_ND.dtype
        cast1_FD, cast2_DF = to_half(weight1_FD, dtype), to_half(weight2_DF, dtype)
        inner_NF = addmm_activation(to_half(bias1_F, dtype), stream_ND, cast1_FD.t())
        ctx.save_for_backward(stream_ND, inner_NF, weight1_FD, weight2_DF, cast1_FD, cast2_DF)
        return torch.addmm(to_half(bias2_D, dtype), inner_NF, cast2_DF.t())

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, ...]:
        stream_ND, inner_NF, weight1_FD, weight2_DF, cast1_FD, cast2_DF = ctx.saved_tensors
        gradient_ND = gradient_ND.contiguous()
        d_weight2_DF = weight_gradient(gradient_ND, inner_NF, weight2_DF)
        d_bias2_D = column_sums(gradient_ND).to(weight2_DF.dtype)
        d_inner_NF = gradient_ND @ cast2_DF
        d_bias1_F = relu_backward_(d_inner_NF, inner_NF).to(weight1_FD.dtype)
        d_weight1_FD = weight_gradient(d_inner_NF, stream_ND, weight1_FD)
        return d_inner_NF @ cast1_FD, d_weight1_FD, d_bias1_F, d_weight2_DF, d_bias2_D


def linear(inputs_ND: Tensor, weight_GD: Tensor, bias_G: Tensor) -> Tensor:
    """W x + b in the precision of x."""
    outputs_NG: Tensor = _Linear.apply(inputs_ND, weight_GD, bias_G)
    return outputs_NG


def feed_forward(stream_ND: Tensor, weight1_FD: Tensor, bias1_F: Tensor, weight2_DF: Tensor, bias2_D: Tensor) -> Tensor:
    """W₂ relu(W₁ x + b₁) + b₂ in the precision of x."""
    outputs_ND: Tensor = _FeedForward.apply(stream_ND, weight1_FD, bias1_F, weight2_DF, bias2_D)
    return outputs_ND
