"""Layers that use weft's own kernels in training: on CUDA, Transformers in half, LSTMs and GRUs in single precision.

In the layers of a Transformer everything that is not a matrix product is fused by hand, forwards and backwards, so that
they gain nothing from `torch.compile`. Each function equals the module that it is given; tests/fast/triton and
tests/contracts/test_gpu.py. `weft.fast.layers.transformer` uses them. Their weights in
half precision are all converted by one kernel instead of one each; plain counterpart: `torch.Tensor.to`,
tests/fast/layers/test_layer_kernels_half_weights.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from weft.fast.torch_private import foreach_copy_

MAX_NORM_WIDTH = 4096


def has_layer_kernels(stream_ND: Tensor) -> bool:
    """Whether the kernels are for such a stream. Layers that are being compiled are fused by the compiler."""
    is_half = stream_ND.dtype in (torch.bfloat16, torch.float16) and stream_ND.dim() == 2
    return is_half and stream_ND.is_cuda and torch.is_grad_enabled() and not torch.compiler.is_compiling()


def has_recurrent_kernels(values: Tensor) -> bool:
    """Whether LSTMs and GRUs over padded batches of such values use kernels."""
    is_single = values.dtype == torch.float32 and not torch.is_autocast_enabled(values.device.type)
    return is_single and values.is_cuda and torch.is_grad_enabled()


def has_norm_kernel(norm: nn.Module, stream_ND: Tensor) -> bool:
    """Whether `residual_norm` can be used."""
    is_plain = type(norm) in (nn.LayerNorm, nn.RMSNorm) and stream_ND.shape[-1] <= MAX_NORM_WIDTH
    return is_plain and has_layer_kernels(stream_ND)


def residual_norm(
    norm: nn.Module, stream_ND: Tensor, output_ND: Tensor | None = None, probability: float = 0.0
) -> tuple[Tensor, Tensor]:
    """``norm(stream_ND + dropout(output_ND))``; without an output, ``norm(stream_ND)``.

    Twice, as two tensors in the same memory: the kernel adds the gradients of two uses.
    """
    from weft.fast.triton.residual_norm import Norm, residual_norm

    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    bias_D = norm.bias if isinstance(norm, nn.LayerNorm) else None
    return residual_norm(stream_ND, output_ND, Norm(norm.weight, bias_D, norm.eps or 0.0), probability)


def dropout_add(stream_ND: Tensor, output_ND: Tensor, probability: float) -> Tensor:
    """``stream_ND + dropout(output_ND)``."""
    from weft.fast.triton.residual_norm import dropout_add

    return dropout_add(stream_ND, output_ND, probability)


def has_position_kernel(embedded_ND: Tensor) -> bool:
    """Whether `add_positions` can be used: for embeddings in full precision, of layers in half precision."""
    is_full = embedded_ND.dtype == torch.float32 and embedded_ND.dim() == 2 and embedded_ND.shape[-1] <= MAX_NORM_WIDTH
    is_trained = is_full and embedded_ND.is_cuda and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    return is_trained and torch.is_autocast_enabled("cuda")


def add_positions(
    embedded_ND: Tensor, scale: float, table_PD: Tensor, positions_N: Tensor, probability: float
) -> Tensor:
    """``dropout(scale * embedded_ND + table_PD[positions_N])`` in the precision of autocast."""
    from weft.fast.triton.add_positions import add_positions

    dtype = torch.get_autocast_dtype("cuda")
    return add_positions(embedded_ND, scale, table_PD, positions_N, probability=probability, dtype=dtype)


def is_trained_linear(module: nn.Module) -> bool:
    """Whether this is a linear layer with a bias that is trained itself: not one with an adapter, for instance."""
    return type(module) is nn.Linear and module.bias is not None and module.weight.requires_grad


def linear(module: nn.Linear, inputs_ND: Tensor) -> Tensor:
    """``module(inputs_ND)``."""
    if not (has_layer_kernels(inputs_ND) and is_trained_linear(module)):
        outputs_ND: Tensor = module(inputs_ND)
        return outputs_ND
    from weft.fast.triton.feed_forward import linear

    return linear(inputs_ND, module.weight, module.bias)


def has_feed_forward_kernel(linear1: nn.Linear, linear2: nn.Linear, stream_ND: Tensor) -> bool:
    """Whether `relu_feed_forward` can be used."""
    return has_layer_kernels(stream_ND) and is_trained_linear(linear1) and is_trained_linear(linear2)


def relu_feed_forward(linear1: nn.Linear, linear2: nn.Linear, stream_ND: Tensor) -> Tensor:
    """``linear2(relu(linear1(stream_ND)))``."""
    from weft.fast.triton.feed_forward import feed_forward

    return feed_forward(stream_ND, linear1.weight, linear1.bias, linear2.weight, linear2.bias)


_copies: ContextVar[dict[int, Tensor] | None] = ContextVar("weights in half precision", default=None)


@contextmanager
def half_weights(weights: Sequence[Tensor], dtype: torch.dtype) -> Iterator[None]:
    """Convert the weights now, for every `to_half` inside. They must not change in the meantime."""
    copies = [torch.empty_like(weight, dtype=dtype, requires_grad=False) for weight in weights]
    if copies:
        with torch.no_grad():
            foreach_copy_(copies, weights)
    token = _copies.set({id(weight): copy for weight, copy in zip(weights, copies, strict=True)})
    try:
        yield
    finally:
        _copies.reset(token)


def to_half(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """``weight.to(dtype)``, without a gradient where the weight was converted by `half_weights`."""
    copies = _copies.get()
    copy = None if copies is None else copies.get(id(weight))
    return weight.to(dtype) if copy is None or copy.dtype != dtype else copy
