"""A weight that a recurrence uses at every step, with its gradient taken once.

Autograd would form the weight's gradient anew at every step and add it up: for a decoder of T steps, T small
products and T passes over a matrix of millions. Since

    y_t = W x_t    gives    dL/dW = Σ_t (dL/dy_t) x_tᵀ = [dL/dy_1 … dL/dy_T] [x_1 … x_T]ᵀ,

it is enough to remember each x_t and dL/dy_t and to make one product at the end. The sums are those autograd would
make, in another order. First-order gradients only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Map = Callable[[Tensor], Tensor]


class _Record:
    """The inputs and output gradients of one weight, as the backward pass meets them."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []


class _Owner(torch.autograd.Function):
    """Hands the weight to the steps; its backward runs after all of theirs and makes the one product."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, record: _Record) -> tuple[Tensor, Tensor | None]:
        ctx.record = record
        ctx.set_materialize_grads(False)
        return weight.view_as(weight), None if bias is None else bias.view_as(bias)

    @staticmethod
    def backward(ctx: Any, *unused: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        record: _Record = ctx.record
        if not record.gradients:
            return None, None, None
        gradients_NG = torch.cat(record.gradients)
        weight = gradients_NG.t() @ torch.cat(record.inputs)
        bias = gradients_NG.sum(0) if ctx.needs_input_grad[1] else None
        record.inputs.clear()
        record.gradients.clear()
        return weight, bias, None


class _Step(torch.autograd.Function):
    """y_t = W x_t + b, remembering x_t and dL/dy_t."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, record: _Record) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.record = record
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        inputs, weight = ctx.saved_tensors
        ctx.record.inputs.append(inputs)
        ctx.record.gradients.append(gradient)
        return gradient @ weight, None, None, None


def unrolled(weight: Tensor, bias: Tensor | None = None) -> Map:
    """x -> W x + b for repeated use within one forward pass."""
    if not (torch.is_grad_enabled() and weight.requires_grad):
        return lambda inputs: functional.linear(inputs, weight, bias)
    record = _Record()
    held_weight, held_bias = _Owner.apply(weight, bias, record)
    return lambda inputs: _Step.apply(inputs, held_weight, held_bias, record)
