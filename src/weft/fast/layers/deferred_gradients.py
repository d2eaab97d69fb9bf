"""Deferred weight gradients: a weight that a recurrence uses at every step gets its gradient from one product.

Equal to `torch.nn.functional.linear` (`deferred_linear`) and `torch.matmul` (`DeferredMatrices`) up to the order of
summation, forwards and backwards; tests/fast/layers/test_deferred_gradients.py.

Autograd would compute the weight's gradient at every step and add it up: for a decoder of T steps, T small products and
T passes over a matrix of millions of numbers. Since

    y_t = W x_t    gives    dL/dW = Σ_t (dL/dy_t) x_tᵀ = [dL/dy_1 … dL/dy_T] [x_1 … x_T]ᵀ,

it is enough to save each x_t and dL/dy_t and to compute one product at the end. The same holds for the keys and values
of an attention inside the recurrence (`DeferredMatrices`). First-order gradients only.

A weight that is used that often is also copied once per pass into a layout that multiplies quickly (`padded_stride`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from weft.fast.cpu.lstm import padded_stride


class LinearMap(Protocol):
    """x_1, …, x_n -> W_1 x_1 + … + W_n x_n + b, plus ``added``."""

    def __call__(self, *inputs: Tensor, added: Tensor | None = None) -> Tensor: ...


class _LinearRecord:
    """One linear map: its matrix [W_1 … W_n] laid out for both passes, and what the backward pass has saved so far."""

    def __init__(self, weights: Sequence[Tensor], bias: Tensor | None) -> None:
        joint = torch.cat([weight.detach() for weight in weights], 1) if len(weights) > 1 else weights[0].detach()
        self.forward_DG = padded_stride(joint.t())
        self.backward_GD = padded_stride(joint)
        self.bias = None if bias is None else bias.detach()
        self.widths = [weight.shape[1] for weight in weights]
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []


class _LinearOwner(torch.autograd.Function):
    """Precedes all steps in the graph, tied to them by an empty tensor: its backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, record: _LinearRecord, bias: Tensor | None, *weights: Tensor) -> Tensor:
        ctx.record = record
        ctx.set_materialize_grads(False)
        return weights[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, unused: Tensor | None) -> tuple[Tensor | None, ...]:
        record: _LinearRecord = ctx.record
        if not record.gradients:
            return (None, None, *(None for _ in record.widths))
        gradients_NG, inputs_ND = torch.cat(record.gradients), torch.cat(record.inputs)
        record.inputs.clear()
        record.gradients.clear()
        weights = [gradients_NG.t() @ part_ND for part_ND in inputs_ND.split(record.widths, -1)]
        return (None, gradients_NG.sum(0) if ctx.needs_input_grad[1] else None, *weights)


class _LinearStep(torch.autograd.Function):
    """y_t = W x_t + b + a_t; backward saves x_t and dL/dy_t in the record."""

    @staticmethod
    def forward(ctx: Any, record: _LinearRecord, tie: Tensor, added: Tensor | None, *inputs: Tensor) -> Tensor:
        joint = torch.cat(inputs, -1) if len(inputs) > 1 else inputs[0]
        ctx.save_for_backward(joint)
        ctx.record = record
        if added is None:
            weight_DG = record.forward_DG
            return joint @ weight_DG if record.bias is None else torch.addmm(record.bias, joint, weight_DG)
        output = torch.addmm(added, joint, record.forward_DG)
        return output if record.bias is None else output.add_(record.bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        record: _LinearRecord = ctx.record
        record.inputs.append(ctx.saved_tensors[0].detach())  # not detached, it would keep the graph alive forever
        record.gradients.append(gradient)
        parts = (gradient @ record.backward_GD).split(record.widths, -1)
        return (None, None, gradient if ctx.needs_input_grad[2] else None, *parts)


def deferred_linear(weight: Tensor | Sequence[Tensor], bias: Tensor | None = None) -> LinearMap:
    """x -> W x + b for repeated use within one forward pass; with several weights, the sum of as many products."""
    weights = [weight] if isinstance(weight, Tensor) else list(weight)
    if not (torch.is_grad_enabled() and all(part.requires_grad for part in weights)):

        def linear_map(*inputs: Tensor, added: Tensor | None = None) -> Tensor:
            output = functional.linear(inputs[0], weights[0], bias)
            for part, part_input in zip(weights[1:], inputs[1:], strict=True):
                output = output + functional.linear(part_input, part)
            return output if added is None else output + added

        return linear_map
    record = _LinearRecord(weights, bias)
    tie: Tensor = _LinearOwner.apply(record, bias, *weights)

    def deferred_map(*inputs: Tensor, added: Tensor | None = None) -> Tensor:
        return _LinearStep.apply(record, tie, added, *inputs)

    return deferred_map


class _MatricesRecord:
    """Saved terms of the backward pass of one batch of matrices: pairs whose outer products add up to the gradient."""

    def __init__(self) -> None:
        self.row_parts: list[Tensor] = []
        """(n, S) the factors along the rows of the matrices."""
        self.column_parts: list[Tensor] = []
        """(n, D) the factors along their columns."""
        self.sum_BSD: Tensor | None = None
        """Gradients of uses of the matrices themselves."""

    def gradient(self, shape: torch.Size) -> Tensor | None:
        """The gradient of all uses; the record is empty afterwards."""
        gradient = self._product(shape)
        self.row_parts.clear()
        self.column_parts.clear()
        self.sum_BSD = None
        return gradient

    def _product(self, shape: torch.Size) -> Tensor | None:
        if not self.row_parts:
            return self.sum_BSD
        batch, rows, columns = shape
        steps = len(self.row_parts)
        rows_BTS = self.row_parts[0].new_zeros(batch, steps, rows)
        columns_BTD = self.row_parts[0].new_zeros(batch, steps, columns)
        for step, (row_part, column_part) in enumerate(zip(self.row_parts, self.column_parts, strict=True)):
            rows_BTS[: len(row_part), step] = row_part
            columns_BTD[: len(column_part), step] = column_part
        product_BSD = rows_BTS.transpose(1, 2) @ columns_BTD
        return product_BSD if self.sum_BSD is None else product_BSD.add_(self.sum_BSD)


class _MatricesOwner(torch.autograd.Function):
    """Passes the matrices to the steps; its backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, matrix_BSD: Tensor, record: _MatricesRecord) -> Tensor:
        ctx.record, ctx.shape = record, matrix_BSD.shape
        ctx.set_materialize_grads(False)
        return matrix_BSD.view_as(matrix_BSD)

    @staticmethod
    def backward(ctx: Any, unused: Tensor | None) -> tuple[Tensor | None, None]:
        return ctx.record.gradient(ctx.shape), None


class _MatricesProduct(torch.autograd.Function):
    """y[b] = M[b] x[b] (``along_columns``: scores) or M[b]ᵀ x[b] (along the rows: a weighted sum)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, matrix_BSD: Tensor, record: _MatricesRecord, along_columns: bool) -> Tensor:
        used = matrix_BSD[: len(inputs)]
        ctx.save_for_backward(inputs, used)
        ctx.record, ctx.along_columns = record, along_columns
        return _product_per_row(used, inputs, along_columns)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        inputs, used = ctx.saved_tensors
        detached = inputs.detach()  # not detached, it would keep the graph alive forever
        ctx.record.row_parts.append(gradient if ctx.along_columns else detached)
        ctx.record.column_parts.append(detached if ctx.along_columns else gradient)
        return _product_per_row(used, gradient, not ctx.along_columns), None, None, None


class _MatricesTensor(torch.autograd.Function):
    """M[:n] itself; gradients are summed in place."""

    @staticmethod
    def forward(ctx: Any, matrix_BSD: Tensor, record: _MatricesRecord, count: int) -> Tensor:
        ctx.record, ctx.shape = record, matrix_BSD.shape
        return matrix_BSD[:count]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        record: _MatricesRecord = ctx.record
        if record.sum_BSD is None:
            record.sum_BSD = gradient.new_zeros(ctx.shape)
        record.sum_BSD[: len(gradient)] += gradient
        return None, None, None


def _product_per_row(matrix_BSD: Tensor, inputs: Tensor, along_columns: bool) -> Tensor:
    if along_columns:
        return torch.bmm(inputs[:, None], matrix_BSD.transpose(1, 2))[:, 0]  # three times as fast as M x
    return torch.bmm(inputs[:, None], matrix_BSD)[:, 0]


class DeferredMatrices:
    """One matrix per row, used at every step by the leading rows: what stands for a tensor (B, S, D) in a loop.

    PyTorch's protocol for such objects lets the plain attention use it as a tensor: one query per row multiplied by all
    keys, ``queries_B1D @ keys.transpose(1, 2)``, and weighted sums of values, ``weights_B1S @ values``, are recorded;
    an index other than of rows gives the tensor itself.
    """

    def __init__(self, matrix_BSD: Tensor) -> None:
        self._record = _MatricesRecord()
        self._matrix_BSD: Tensor = _MatricesOwner.apply(matrix_BSD, self._record)
        self._count = len(matrix_BSD)
        self._transposed = False

    def __getitem__(self, index: Any) -> Any:
        """The leading rows, still deferred; else what the tensor has there."""
        if not isinstance(index, slice):
            return self.as_tensor()[index]
        leading = self._copy()
        leading._count = len(range(self._count)[index])
        return leading

    def transpose(self, first: int, second: int) -> DeferredMatrices:
        """(B, D, S), to be multiplied by queries."""
        assert (first, second) == (1, 2)
        transposed = self._copy()
        transposed._transposed = not self._transposed
        return transposed

    def as_tensor(self) -> Tensor:
        """(B, S, D)."""
        return _MatricesTensor.apply(self._matrix_BSD, self._record, self._count)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Tensor:
        vectors_B1D, matrices = arguments
        if function not in (torch.matmul, Tensor.matmul, Tensor.__matmul__) or not isinstance(matrices, cls):
            raise TypeError(f"{function} of deferred matrices")
        along_columns = matrices._transposed
        matrix_BSD, record = matrices._matrix_BSD, matrices._record
        return _MatricesProduct.apply(vectors_B1D.squeeze(1), matrix_BSD, record, along_columns).unsqueeze(1)

    def _copy(self) -> DeferredMatrices:
        """A copy with the same record."""
        copied = object.__new__(DeferredMatrices)
        copied.__dict__.update(self.__dict__)
        return copied
