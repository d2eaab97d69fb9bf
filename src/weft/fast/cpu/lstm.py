"""A layer of an LSTM over time-major tokens with its backward pass written out.

Equal to the equations of `weft.models.recurrent.LSTM`; tests/fast/cpu/test_lstm.py.

    i, f, o = σ(a_i), σ(a_f), σ(a_o)      g = tanh(a_g)      a = W x_t + U h_{t−1} + b
    c_t = f ⊙ c_{t−1} + i ⊙ g             h_t = o ⊙ tanh(c_t)

    dc_t ← dc_t + dh_t ⊙ o ⊙ (1 − tanh² c_t)
    da_i = dc_t ⊙ g ⊙ i (1 − i)           da_f = dc_t ⊙ c_{t−1} ⊙ f (1 − f)
    da_g = dc_t ⊙ i ⊙ (1 − g²)            da_o = dh_t ⊙ tanh(c_t) ⊙ o (1 − o)
    dc_{t−1} = dc_t ⊙ f                   dh_{t−1} = Uᵀ da       dL/dU = Σ_t da h_{t−1}ᵀ

Half the passes over memory that autograd would make; a layer adds one node to the graph, and one product gives dL/dU.
Gates are in PyTorch's order i, f, g, o. First-order gradients only.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

STRIDE_PADDING = 16
"""Numbers between two rows of a matrix with a padded stride."""


def padded_stride(matrix: Tensor) -> Tensor:
    """A row-major copy with unused numbers between the rows, which multiplies faster on a CPU.

    Rows whose distance is a power of two compete for the same cache lines. One thread, 100 × 1024 by 1024 × 2048:
    73 GF/s without the padding, 114 with it, 105 for a transposed view; two threads: 166, 169, 147. On a GPU the matrix
    itself is returned.
    """
    if matrix.is_cuda:
        return matrix
    rows, columns = matrix.shape
    return matrix.new_empty(rows, columns + STRIDE_PADDING)[:, :columns].copy_(matrix.contiguous())


def activate(gates_BG: Tensor, size: int, out_BG: Tensor) -> None:
    """i, f, g, o from a; ``out_BG`` may be ``gates_BG`` itself."""
    torch.sigmoid(gates_BG[:, : 2 * size], out=out_BG[:, : 2 * size])
    torch.tanh(gates_BG[:, 2 * size : 3 * size], out=out_BG[:, 2 * size : 3 * size])
    torch.sigmoid(gates_BG[:, 3 * size :], out=out_BG[:, 3 * size :])


def gates_gradient(
    gates_BG: Tensor,
    cell_BD: Tensor,
    tanh_cell_BD: Tensor,
    state_grad_BD: Tensor,
    next_cell_grad_BD: Tensor,
    out_BG: Tensor,
) -> Tensor:
    """da into ``out_BG``; returns dc_{t−1}. ``gates_BG``: i f g o; ``cell_BD``: c_{t−1}; ``tanh_cell_BD``: tanh c_t."""
    i, f, g, o = gates_BG.chunk(4, -1)
    i_grad, f_grad, g_grad, o_grad = out_BG.chunk(4, -1)
    cell_grad_BD = torch.ops.aten.tanh_backward(state_grad_BD * o, tanh_cell_BD).add_(next_cell_grad_BD)
    torch.mul(cell_grad_BD, g, out=i_grad)
    torch.mul(cell_grad_BD, cell_BD, out=f_grad)
    torch.mul(cell_grad_BD, i, out=g_grad)
    torch.mul(state_grad_BD, tanh_cell_BD, out=o_grad)
    both, both_grad = gates_BG[:, : 2 * cell_BD.shape[-1]], out_BG[:, : 2 * cell_BD.shape[-1]]
    torch.ops.aten.sigmoid_backward(both_grad, both, grad_input=both_grad)
    torch.ops.aten.tanh_backward(g_grad, g, grad_input=g_grad)
    torch.ops.aten.sigmoid_backward(o_grad, o, grad_input=o_grad)
    return cell_grad_BD.mul_(f)


class _LstmLayer(torch.autograd.Function):
    """One direction. ``spans[t]``: the tokens of time t, which belong to the leading rows."""

    @staticmethod
    def forward(
        ctx: Any, input_NG: Tensor, weight_GD: Tensor, state_BD: Tensor, cell_BD: Tensor, spans: list[slice]
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, size = len(input_NG), state_BD.shape[-1]
        gates_NG = torch.empty_like(input_NG)
        states_ND, previous_ND, cells_ND, tanh_cells_ND = (input_NG.new_empty(tokens, size) for _ in range(4))
        weight_DG = padded_stride(weight_GD.t())
        state_BD, cell_BD = state_BD.clone(), cell_BD.clone()
        for span in spans:
            rows = span.stop - span.start
            gates, tanh_cell, state, cell = gates_NG[span], tanh_cells_ND[span], state_BD[:rows], cell_BD[:rows]
            previous_ND[span] = state
            cells_ND[span] = cell
            torch.addmm(input_NG[span], state, weight_DG, out=gates)
            activate(gates, size, gates)
            i, f, g, o = gates.chunk(4, -1)
            cell.mul_(f).addcmul_(i, g)
            torch.tanh(cell, out=tanh_cell)
            torch.mul(o, tanh_cell, out=state)
            states_ND[span] = state
        ctx.save_for_backward(weight_GD, gates_NG, previous_ND, cells_ND, tanh_cells_ND)
        ctx.spans = spans
        return states_ND, state_BD, cell_BD

    @staticmethod
    def backward(
        ctx: Any, states_grad_ND: Tensor, state_grad_BD: Tensor, cell_grad_BD: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor, None]:
        weight_GD, gates_NG, previous_ND, cells_ND, tanh_cells_ND = ctx.saved_tensors
        grad_NG = torch.empty_like(gates_NG)
        weight_GD = padded_stride(weight_GD)
        state_grad_BD, cell_grad_BD = state_grad_BD.clone(), cell_grad_BD.clone()
        for span in reversed(ctx.spans):
            rows = span.stop - span.start
            state_grad, cell_grad = state_grad_BD[:rows], cell_grad_BD[:rows]
            state_grad += states_grad_ND[span]
            cell_grad.copy_(
                gates_gradient(
                    gates_NG[span], cells_ND[span], tanh_cells_ND[span], state_grad, cell_grad, grad_NG[span]
                )
            )
            torch.mm(grad_NG[span], weight_GD, out=state_grad)
        weight_grad_GD = grad_NG.t() @ previous_ND if ctx.needs_input_grad[1] else None
        return grad_NG, weight_grad_GD, state_grad_BD, cell_grad_BD, None


def lstm_layer(
    input_NG: Tensor,
    weight_GD: Tensor,
    state_BD: Tensor,
    cell_BD: Tensor,
    *,
    batch_sizes: list[int],
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All states (N, D), last states (B, D) and last cells (B, D) from W x_t + b of time-major tokens.

    ``batch_sizes[t]`` leading rows have a token at time t; in ``reverse`` the last token is read first.
    """
    spans = time_spans(batch_sizes)
    result: tuple[Tensor, Tensor, Tensor] = _LstmLayer.apply(
        input_NG, weight_GD, state_BD, cell_BD, spans[::-1] if reverse else spans
    )
    return result


def time_spans(batch_sizes: list[int]) -> list[slice]:
    """The tokens of every time in time-major order."""
    ends = list(accumulate(batch_sizes))
    return [slice(end - size, end) for size, end in zip(batch_sizes, ends, strict=True)]
