"""What a recurrence uses at every step, with its gradient taken once.

Autograd would form the weight's gradient anew at every step and add it up: for a decoder of T steps, T small
products and T passes over a matrix of millions. Since

    y_t = W x_t    gives    dL/dW = Σ_t (dL/dy_t) x_tᵀ = [dL/dy_1 … dL/dy_T] [x_1 … x_T]ᵀ,

it is enough to remember each x_t and dL/dy_t and to make one product at the end. The same holds for the keys and
values that an attention in the recurrence looks at again and again (`DeferredRows`). The sums are those autograd would
make, in another order. First-order gradients only.

A weight that is used so often is also worth laying out for its products, once a pass (`_Layout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Map(Protocol):
    """x_1, …, x_n -> W_1 x_1 + … + W_n x_n + b, and what is to be added."""

    def __call__(self, *inputs: Tensor, added: Tensor | None = None) -> Tensor: ...


def spaced(matrix: Tensor) -> Tensor:
    """A copy that multiplies quickly on a CPU: row after row, but with a gap between two rows.

    Rows whose distance is a power of two seem to compete for the same cache lines. One thread, 100 × 1024 by
    1024 × 2048: 73 GF/s without the gap, 114 with it, 105 for a transposed view; two threads: 166, 169, 147. On a GPU
    the matrix itself will do.
    """
    if matrix.is_cuda:
        return matrix
    rows, columns = matrix.shape
    return matrix.new_empty(rows, columns + 16)[:, :columns].copy_(matrix.contiguous())


class _Record:
    """One map: its matrix [W_1 … W_n] laid out for both passes, and what the backward pass meets of it."""

    def __init__(self, weights: Sequence[Tensor], bias: Tensor | None) -> None:
        joint = torch.cat([weight.detach() for weight in weights], 1) if len(weights) > 1 else weights[0].detach()
        self.forth_DG = spaced(joint.t())
        self.back_GD = spaced(joint)
        self.bias = None if bias is None else bias.detach()
        self.widths = [weight.shape[1] for weight in weights]
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []


class _Owner(torch.autograd.Function):
    """Stands before the steps, tied to them by an empty tensor: its backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, record: _Record, bias: Tensor | None, *weights: Tensor) -> Tensor:
        ctx.record = record
        ctx.set_materialize_grads(False)
        return weights[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, unused: Tensor | None) -> tuple[Tensor | None, ...]:
        record: _Record = ctx.record
        if not record.gradients:
            return (None, None, *(None for _ in record.widths))
        gradients_NG, inputs_ND = torch.cat(record.gradients), torch.cat(record.inputs)
        record.inputs.clear()
        record.gradients.clear()
        weights = [gradients_NG.t() @ part_ND for part_ND in inputs_ND.split(record.widths, -1)]
        return (None, gradients_NG.sum(0) if ctx.needs_input_grad[1] else None, *weights)


class _Step(torch.autograd.Function):
    """y_t = W x_t + b + a_t, remembering x_t and dL/dy_t."""

    @staticmethod
    def forward(ctx: Any, record: _Record, tie: Tensor, added: Tensor | None, *inputs: Tensor) -> Tensor:
        joint = torch.cat(inputs, -1) if len(inputs) > 1 else inputs[0]
        ctx.save_for_backward(joint)
        ctx.record = record
        if added is None:
            return joint @ record.forth_DG if record.bias is None else torch.addmm(record.bias, joint, record.forth_DG)
        made = torch.addmm(added, joint, record.forth_DG)
        return made if record.bias is None else made.add_(record.bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        record: _Record = ctx.record
        record.inputs.append(ctx.saved_tensors[0].detach())  # with the graph it would be kept alive for ever
        record.gradients.append(gradient)
        parts = (gradient @ record.back_GD).split(record.widths, -1)
        return (None, None, gradient if ctx.needs_input_grad[2] else None, *parts)


def unrolled(weight: Tensor | Sequence[Tensor], bias: Tensor | None = None) -> Map:
    """x -> W x + b for repeated use within one forward pass; with several weights, the sum of as many maps."""
    weights = [weight] if isinstance(weight, Tensor) else list(weight)
    if not (torch.is_grad_enabled() and all(one.requires_grad for one in weights)):

        def plain_map(*inputs: Tensor, added: Tensor | None = None) -> Tensor:
            made = functional.linear(inputs[0], weights[0], bias)
            for one, other in zip(weights[1:], inputs[1:], strict=True):
                made = made + functional.linear(other, one)
            return made if added is None else made + added

        return plain_map
    record = _Record(weights, bias)
    tie: Tensor = _Owner.apply(record, bias, *weights)

    def held_map(*inputs: Tensor, added: Tensor | None = None) -> Tensor:
        return _Step.apply(record, tie, added, *inputs)

    return held_map


class _RowsRecord:
    """What the backward pass meets of one batch of matrices: pairs whose outer products make up the gradient."""

    def __init__(self) -> None:
        self.items: list[Tensor] = []
        """(n, S) what went along the item axis."""
        self.widths: list[Tensor] = []
        """(n, D) what went along the width axis."""
        self.sum_BSD: Tensor | None = None
        """Gradients of uses of the matrices as they are."""

    def gradient(self, shape: torch.Size) -> Tensor | None:
        """The gradient of all uses; the record is empty afterwards."""
        found = self._product(shape)
        self.items.clear()
        self.widths.clear()
        self.sum_BSD = None
        return found

    def _product(self, shape: torch.Size) -> Tensor | None:
        if not self.items:
            return self.sum_BSD
        rows, items, width = shape
        steps = len(self.items)
        items_BTS = self.items[0].new_zeros(rows, steps, items)
        widths_BTD = self.items[0].new_zeros(rows, steps, width)
        for step, (one, other) in enumerate(zip(self.items, self.widths, strict=True)):
            items_BTS[: len(one), step] = one
            widths_BTD[: len(other), step] = other
        product_BSD = items_BTS.transpose(1, 2) @ widths_BTD
        return product_BSD if self.sum_BSD is None else product_BSD.add_(self.sum_BSD)


class _RowsOwner(torch.autograd.Function):
    """Hands the matrices to the steps; its backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, matrix_BSD: Tensor, record: _RowsRecord) -> Tensor:
        ctx.record, ctx.shape = record, matrix_BSD.shape
        ctx.set_materialize_grads(False)
        return matrix_BSD.view_as(matrix_BSD)

    @staticmethod
    def backward(ctx: Any, unused: Tensor | None) -> tuple[Tensor | None, None]:
        return ctx.record.gradient(ctx.shape), None


class _RowsProduct(torch.autograd.Function):
    """y[b] = M[b] x[b] (``along`` the width: scores) or M[b]ᵀ x[b] (along the items: a weighted sum)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, matrix_BSD: Tensor, record: _RowsRecord, along_width: bool) -> Tensor:
        used = matrix_BSD[: len(inputs)]
        ctx.save_for_backward(inputs, used)
        ctx.record, ctx.along_width = record, along_width
        return _per_row(used, inputs, along_width)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        inputs, used = ctx.saved_tensors
        inputs_alone = inputs.detach()  # a record that held the graph would keep it alive for ever
        ctx.record.items.append(gradient if ctx.along_width else inputs_alone)
        ctx.record.widths.append(inputs_alone if ctx.along_width else gradient)
        return _per_row(used, gradient, not ctx.along_width), None, None, None


class _RowsPlain(torch.autograd.Function):
    """M[:n] itself; gradients are summed in place."""

    @staticmethod
    def forward(ctx: Any, matrix_BSD: Tensor, record: _RowsRecord, count: int) -> Tensor:
        ctx.record, ctx.shape = record, matrix_BSD.shape
        return matrix_BSD[:count]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        record: _RowsRecord = ctx.record
        if record.sum_BSD is None:
            record.sum_BSD = gradient.new_zeros(ctx.shape)
        record.sum_BSD[: len(gradient)] += gradient
        return None, None, None


def _per_row(matrix_BSD: Tensor, inputs: Tensor, along_width: bool) -> Tensor:
    if along_width:
        return torch.bmm(inputs[:, None], matrix_BSD.transpose(1, 2))[:, 0]  # thrice as quick as M x
    return torch.bmm(inputs[:, None], matrix_BSD)[:, 0]


class DeferredRows:
    """A matrix for every row, used at every step by the leading rows. Stands in for a tensor (B, S, D) in a tree."""

    def __init__(self, matrix_BSD: Tensor) -> None:
        self._record = _RowsRecord()
        self._matrix_BSD: Tensor = _RowsOwner.apply(matrix_BSD, self._record)
        self._count = len(matrix_BSD)

    def __getitem__(self, rows: slice) -> DeferredRows:
        """The leading rows only."""
        narrower = object.__new__(DeferredRows)
        narrower._record, narrower._matrix_BSD = self._record, self._matrix_BSD
        narrower._count = len(range(self._count)[rows])
        return narrower

    def dot(self, queries_B1D: Tensor) -> Tensor:
        """(B, 1, S) the product of each row's query with each of its items."""
        return _RowsProduct.apply(queries_B1D.squeeze(1), self._matrix_BSD, self._record, True).unsqueeze(1)

    def mix(self, weights_B1S: Tensor) -> Tensor:
        """(B, 1, D) each row's items, weighted and summed."""
        return _RowsProduct.apply(weights_B1S.squeeze(1), self._matrix_BSD, self._record, False).unsqueeze(1)

    def plain(self) -> Tensor:
        """(B, S, D) the items."""
        return _RowsPlain.apply(self._matrix_BSD, self._record, self._count)


Items = Tensor | DeferredRows


def dot(queries_BTD: Tensor, items_BSD: Items) -> Tensor:
    """(B, T, S) the product of every query with every item of its row."""
    return (
        items_BSD.dot(queries_BTD) if isinstance(items_BSD, DeferredRows) else queries_BTD @ items_BSD.transpose(1, 2)
    )


def mix(weights_BTS: Tensor, items_BSD: Items) -> Tensor:
    """(B, T, D) the items of a row, weighted and summed for every query."""
    return items_BSD.mix(weights_BTS) if isinstance(items_BSD, DeferredRows) else weights_BTS @ items_BSD


def plain(items_BSD: Items) -> Tensor:
    """(B, S, D) the items as a tensor."""
    return items_BSD.plain() if isinstance(items_BSD, DeferredRows) else items_BSD
