"""Input feeding (Luong et al. 2015, 3.3) over whole targets, with its gradient written out: the quick way on a CPU.

    a_t = E_t + F ã_{t−1} + U h_{t−1}       h_t, c_t = LSTM(a_t, c_{t−1})       E_t: the map of y_{t−1}, with biases
    α_t = softmax(K h_t)                    ã_t = m_t ⊙ tanh(R [V ᵀα_t; h_t] + b)       m_t: dropout

For one LSTM layer and a score that is a product of query and prepared key; `RecurrentDecoder` goes step by step for
everything else, and both give the same numbers. Tokens are in time-major order: ``spans[t]`` are those of time t, of
the leading rows. What autograd would keep in a graph of thousands of nodes stands in a few matrices with a row for
every token, so that the gradient of each weight is one product. First-order gradients only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.kernels.cpu.lstm import activate, gates_gradient, spans_of
from weft.kernels.deferred_gradients import padded_stride


class Weights(NamedTuple):
    """F, U, R and b."""

    feed_GO: Tensor
    state_GD: Tensor
    readout_OR: Tensor
    readout_bias_O: Tensor


class Looked(NamedTuple):
    """What the loop gives, token by token."""

    outputs_NO: Tensor
    weights_NS: Tensor


def feed_inputs(
    of_embedded_NG: Tensor,
    weights: Weights,
    *,
    state_BD: Tensor,
    memory_BD: Tensor,
    keys_BSD: Tensor,
    values_BSC: Tensor,
    bias_BS: Tensor,
    kept_NO: Tensor | None,
    counts: list[int],
) -> Looked:
    """ã_t and α_t of every token; ``kept_NO`` is the dropout's m. No gradient goes through the α_t that are given."""
    sources = (state_BD, memory_BD, keys_BSD, values_BSC)
    return Looked(*_InputFeeding.apply(spans_of(counts), bias_BS, kept_NO, of_embedded_NG, *weights, *sources))


class _InputFeeding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        spans: list[slice],
        bias_BS: Tensor,
        kept_NO: Tensor | None,
        of_embedded_NG: Tensor,
        feed_GO: Tensor,
        state_GD: Tensor,
        readout_OR: Tensor,
        readout_bias_O: Tensor,
        state_BD: Tensor,
        memory_BD: Tensor,
        keys_BSD: Tensor,
        values_BSC: Tensor,
    ) -> tuple[Tensor, Tensor]:
        tokens, size, given, context = len(of_embedded_NG), state_BD.shape[1], len(readout_OR), values_BSC.shape[2]
        fresh = of_embedded_NG.new_empty
        gates_NG, entered_NJ, read_NR = (
            torch.empty_like(of_embedded_NG),
            fresh(tokens, given + size),
            fresh(tokens, context + size),
        )
        memories_ND, shown_ND, made_NO = fresh(tokens, size), fresh(tokens, size), fresh(tokens, given)
        weights_NS = fresh(tokens, keys_BSD.shape[1])
        outputs_NO = made_NO if kept_NO is None else torch.empty_like(made_NO)
        weight_JG, readout_RO = padded_stride(torch.cat([feed_GO, state_GD], 1).t()), padded_stride(readout_OR.t())
        state, feed, memory_BD = state_BD, state_BD.new_zeros(len(state_BD), given), memory_BD.clone()
        for span in spans:
            rows = span.stop - span.start
            gates, entered, read, memory, shown = (
                gates_NG[span],
                entered_NJ[span],
                read_NR[span],
                memory_BD[:rows],
                shown_ND[span],
            )
            entered[:, :given], entered[:, given:] = feed[:rows], state[:rows]
            memories_ND[span] = memory
            torch.addmm(of_embedded_NG[span], entered, weight_JG, out=gates)
            activate(gates, size, gates)
            enter, forget, new, out = gates.chunk(4, -1)
            memory.mul_(forget).addcmul_(enter, new)
            torch.tanh(memory, out=shown)
            state = torch.mul(out, shown, out=read[:, context:])
            scores_BS = torch.bmm(state[:, None], keys_BSD[:rows].transpose(1, 2))[:, 0].add_(bias_BS[:rows])
            weights_BS = torch.softmax(scores_BS, -1, out=weights_NS[span])
            read[:, :context] = torch.bmm(weights_BS[:, None], values_BSC[:rows])[:, 0]
            feed = torch.addmm(readout_bias_O, read, readout_RO, out=made_NO[span]).tanh_()
            if kept_NO is not None:
                feed = torch.mul(feed, kept_NO[span], out=outputs_NO[span])
        ctx.spans = spans
        ctx.save_for_backward(
            kept_NO,
            feed_GO,
            state_GD,
            readout_OR,
            keys_BSD,
            values_BSC,
            gates_NG,
            entered_NJ,
            read_NR,
            memories_ND,
            shown_ND,
            made_NO,
            weights_NS,
        )
        ctx.mark_non_differentiable(weights_NS)
        return outputs_NO, weights_NS

    @staticmethod
    def backward(ctx: Any, outputs_grad_NO: Tensor, unused: Tensor) -> tuple[Tensor | None, ...]:
        kept_NO, feed_GO, state_GD, readout_OR, keys_BSD, values_BSC, *found = ctx.saved_tensors
        gates_NG, entered_NJ, read_NR, memories_ND, shown_ND, made_NO, weights_NS = found
        rows_all, size, given, context = len(keys_BSD), state_GD.shape[1], len(readout_OR), values_BSC.shape[2]
        gates_grad_NG, made_grad_NO, scores_grad_NS = (torch.empty_like(one) for one in (gates_NG, made_NO, weights_NS))
        context_grad_NC = read_NR.new_empty(len(read_NR), context)
        weight_GJ, readout_back_OR = padded_stride(torch.cat([feed_GO, state_GD], 1)), padded_stride(readout_OR)
        entered_grad_BJ = read_NR.new_zeros(rows_all, given + size)
        memory_grad_BD = read_NR.new_zeros(rows_all, size)
        for span in reversed(ctx.spans):
            rows = span.stop - span.start
            entered_grad, memory_grad = entered_grad_BJ[:rows], memory_grad_BD[:rows]
            made_grad = torch.add(outputs_grad_NO[span], entered_grad[:, :given], out=made_grad_NO[span])
            if kept_NO is not None:
                made_grad.mul_(kept_NO[span])
            torch.ops.aten.tanh_backward(made_grad, made_NO[span], grad_input=made_grad)
            read_grad_BR = made_grad @ readout_back_OR
            context_grad, state_grad = read_grad_BR[:, :context], read_grad_BR[:, context:]
            context_grad_NC[span] = context_grad
            weights_grad = torch.bmm(context_grad[:, None], values_BSC[:rows].transpose(1, 2))[:, 0]
            weights = weights_NS[span]
            scores_grad_BS = weights_grad.sub_((weights * weights_grad).sum(-1, keepdim=True)).mul_(weights)
            scores_grad_NS[span] = scores_grad_BS
            state_grad += entered_grad[:, given:]
            state_grad += torch.bmm(scores_grad_BS[:, None], keys_BSD[:rows])[:, 0]
            gates_grad = gates_grad_NG[span]
            memory_grad.copy_(
                gates_gradient(gates_NG[span], memories_ND[span], shown_ND[span], state_grad, memory_grad, gates_grad)
            )
            torch.mm(gates_grad, weight_GJ, out=entered_grad)
        states_ND = read_NR[:, context:]
        return (
            None,
            None,
            None,
            gates_grad_NG,
            gates_grad_NG.t() @ entered_NJ[:, :given],
            gates_grad_NG.t() @ entered_NJ[:, given:],
            made_grad_NO.t() @ read_NR,
            made_grad_NO.sum(0),
            entered_grad_BJ[:, given:],
            memory_grad_BD,
            _outer(scores_grad_NS, states_ND, ctx.spans, rows_all),
            _outer(weights_NS, context_grad_NC, ctx.spans, rows_all),
        )


def _outer(items_NS: Tensor, widths_ND: Tensor, spans: list[slice], rows: int) -> Tensor:
    """(B, S, D) for every row the sum over its tokens of items ⊗ widths."""
    items_BTS = items_NS.new_zeros(rows, len(spans), items_NS.shape[1])
    widths_BTD = widths_ND.new_zeros(rows, len(spans), widths_ND.shape[1])
    for time, span in enumerate(spans):
        items_BTS[: span.stop - span.start, time] = items_NS[span]
        widths_BTD[: span.stop - span.start, time] = widths_ND[span]
    return items_BTS.transpose(1, 2) @ widths_BTD
