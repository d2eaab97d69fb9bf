"""The LSTM's equations with their gradient written out: one step, and a whole layer over time-major tokens.

    i, f, o = σ(a_i), σ(a_f), σ(a_o)      g = tanh(a_g)      a = W x_t + U h_{t−1} + b
    c_t = f ⊙ c_{t−1} + i ⊙ g             h_t = o ⊙ tanh(c_t)

    dc_t ← dc_t + dh_t ⊙ o ⊙ (1 − tanh² c_t)
    da_i = dc_t ⊙ g ⊙ i (1 − i)           da_f = dc_t ⊙ c_{t−1} ⊙ f (1 − f)
    da_g = dc_t ⊙ i ⊙ (1 − g²)            da_o = dh_t ⊙ tanh(c_t) ⊙ o (1 − o)
    dc_{t−1} = dc_t ⊙ f                   dh_{t−1} = Uᵀ da       dL/dU = Σ_t da h_{t−1}ᵀ

Half the passes over memory that autograd would make; in a layer no node of a graph for a step, one product for dL/dU.
Gates stand in PyTorch's order i, f, g, o. First-order gradients only.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from weft.kernels.deferred_gradients import padded_stride


def activate(gates_BG: Tensor, size: int, out_BG: Tensor) -> None:
    """i, f, g, o of a; ``out_BG`` may be ``gates_BG`` itself."""
    torch.sigmoid(gates_BG[:, : 2 * size], out=out_BG[:, : 2 * size])
    torch.tanh(gates_BG[:, 2 * size : 3 * size], out=out_BG[:, 2 * size : 3 * size])
    torch.sigmoid(gates_BG[:, 3 * size :], out=out_BG[:, 3 * size :])


def gates_gradient(
    gates_BG: Tensor, memory_BD: Tensor, shown_BD: Tensor, state_grad_BD: Tensor, next_grad_BD: Tensor, out_BG: Tensor
) -> Tensor:
    """da into ``out_BG``; gives dc_{t−1}. ``gates_BG`` are i, f, g, o; ``shown_BD`` is tanh(c_t)."""
    enter, forget, new, out = gates_BG.chunk(4, -1)
    of_enter, of_forget, of_new, of_out = out_BG.chunk(4, -1)
    total_BD = torch.ops.aten.tanh_backward(state_grad_BD * out, shown_BD).add_(next_grad_BD)
    torch.mul(total_BD, new, out=of_enter)
    torch.mul(total_BD, memory_BD, out=of_forget)
    torch.mul(total_BD, enter, out=of_new)
    torch.mul(state_grad_BD, shown_BD, out=of_out)
    both, of_both = gates_BG[:, : 2 * memory_BD.shape[-1]], out_BG[:, : 2 * memory_BD.shape[-1]]
    torch.ops.aten.sigmoid_backward(of_both, both, grad_input=of_both)
    torch.ops.aten.tanh_backward(of_new, new, grad_input=of_new)
    torch.ops.aten.sigmoid_backward(of_out, out, grad_input=of_out)
    return total_BD.mul_(forget)


class _LstmStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates_BG: Tensor, memory_BD: Tensor) -> tuple[Tensor, Tensor]:
        active_BG = torch.empty_like(gates_BG)
        activate(gates_BG, memory_BD.shape[-1], active_BG)
        enter, forget, new, out = active_BG.chunk(4, -1)
        next_BD = torch.mul(forget, memory_BD).addcmul_(enter, new)
        shown_BD = next_BD.tanh()
        ctx.save_for_backward(active_BG, memory_BD, shown_BD)
        return out * shown_BD, next_BD

    @staticmethod
    def backward(ctx: Any, state_grad_BD: Tensor, next_grad_BD: Tensor) -> tuple[Tensor, Tensor]:
        gates_BG, memory_BD, shown_BD = ctx.saved_tensors
        grad_BG = torch.empty_like(gates_BG)
        memory_grad_BD = gates_gradient(gates_BG, memory_BD, shown_BD, state_grad_BD, next_grad_BD, grad_BG)
        return grad_BG, memory_grad_BD


def lstm_step(gates_BG: Tensor, memory_BD: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t from a and c_{t−1}."""
    return _LstmStep.apply(gates_BG, memory_BD)


class _LstmLayer(torch.autograd.Function):
    """One direction. ``counts[t]`` leading rows have a token at time t; the others keep their state."""

    @staticmethod
    def forward(
        ctx: Any, of_input_NG: Tensor, weight_GD: Tensor, start_BD: Tensor, memory_BD: Tensor, spans: list[slice]
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, size = len(of_input_NG), start_BD.shape[-1]
        gates_NG = torch.empty_like(of_input_NG)
        states_ND, before_ND, memories_ND, shown_ND = (of_input_NG.new_empty(tokens, size) for _ in range(4))
        weight_DG = padded_stride(weight_GD.t())
        state_BD, memory_BD = start_BD.clone(), memory_BD.clone()
        for span in spans:
            rows = span.stop - span.start
            gates, shown, state, memory = gates_NG[span], shown_ND[span], state_BD[:rows], memory_BD[:rows]
            before_ND[span] = state
            memories_ND[span] = memory
            torch.addmm(of_input_NG[span], state, weight_DG, out=gates)
            activate(gates, size, gates)
            enter, forget, new, out = gates.chunk(4, -1)
            memory.mul_(forget).addcmul_(enter, new)
            torch.tanh(memory, out=shown)
            torch.mul(out, shown, out=state)
            states_ND[span] = state
        ctx.save_for_backward(weight_GD, gates_NG, before_ND, memories_ND, shown_ND)
        ctx.spans = spans
        return states_ND, state_BD, memory_BD

    @staticmethod
    def backward(
        ctx: Any, states_grad_ND: Tensor, state_grad_BD: Tensor, memory_grad_BD: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor, None]:
        weight_GD, gates_NG, before_ND, memories_ND, shown_ND = ctx.saved_tensors
        grad_NG = torch.empty_like(gates_NG)
        weight_GD = padded_stride(weight_GD)
        state_grad_BD, memory_grad_BD = state_grad_BD.clone(), memory_grad_BD.clone()
        for span in reversed(ctx.spans):
            rows = span.stop - span.start
            state_grad, memory_grad = state_grad_BD[:rows], memory_grad_BD[:rows]
            state_grad += states_grad_ND[span]
            memory_grad.copy_(
                gates_gradient(
                    gates_NG[span], memories_ND[span], shown_ND[span], state_grad, memory_grad, grad_NG[span]
                )
            )
            torch.mm(grad_NG[span], weight_GD, out=state_grad)
        weight_grad_GD = grad_NG.t() @ before_ND if ctx.needs_input_grad[1] else None
        return grad_NG, weight_grad_GD, state_grad_BD, memory_grad_BD, None


def lstm_layer(
    of_input_NG: Tensor, weight_GD: Tensor, start_BD: Tensor, memory_BD: Tensor, *, counts: list[int], reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """All states (N, D), last states (B, D) and last memories (B, D) from W x_t + b of time-major tokens.

    ``counts[t]`` leading rows have a token at time t; in ``reverse`` the last is read first.
    """
    spans = spans_of(counts)
    found: tuple[Tensor, Tensor, Tensor] = _LstmLayer.apply(
        of_input_NG, weight_GD, start_BD, memory_BD, spans[::-1] if reverse else spans
    )
    return found


def spans_of(counts: list[int]) -> list[slice]:
    """Where the tokens of every time stand in time-major order."""
    ends = list(accumulate(counts))
    return [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
