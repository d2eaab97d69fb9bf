"""Input feeding (Luong et al. 2015, 3.3) over whole targets with its backward pass written out.

Equal to `weft.models.recurrent_decoder.RecurrentDecoder.run`; tests/fast/cpu/test_input_feeding.py.

    a_t = E_t + F ã_{t−1} + U h_{t−1}       h_t, c_t = LSTM(a_t, c_{t−1})       E_t = W y_{t−1} + b
    α_t = softmax(K h_t)                    ã_t = m_t ⊙ tanh(R [V ᵀα_t; h_t] + b)       m_t: dropout

For one LSTM layer and a score that is a dot product of query and projected key. Tokens are in time-major order: those
of time t belong to the leading rows. What autograd would keep in a graph of thousands of nodes is kept in a few
matrices with one row per token, so that the gradient of each weight is one product. First-order gradients only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.fast.cpu.lstm import activate, gates_gradient, padded_stride, time_spans


class FeedingWeights(NamedTuple):
    """F, U, R and b."""

    feed_GO: Tensor
    state_GD: Tensor
    readout_OR: Tensor
    readout_bias_O: Tensor


class FeedingOutput(NamedTuple):
    """ã_t and α_t of every token."""

    states_NO: Tensor
    weights_NS: Tensor


def feed_inputs(
    input_NG: Tensor,
    weights: FeedingWeights,
    *,
    state_BD: Tensor,
    cell_BD: Tensor,
    keys_BSD: Tensor,
    values_BSC: Tensor,
    mask_BS: Tensor,
    dropout_NO: Tensor | None,
    batch_sizes: list[int],
) -> FeedingOutput:
    """ã_t and α_t of every token; ``input_NG``: E_t; ``dropout_NO``: m_t. The α_t are not differentiable."""
    source = (state_BD, cell_BD, keys_BSD, values_BSC)
    return FeedingOutput(
        *_InputFeeding.apply(time_spans(batch_sizes), mask_BS, dropout_NO, input_NG, *weights, *source)
    )


class _InputFeeding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        spans: list[slice],
        mask_BS: Tensor,
        dropout_NO: Tensor | None,
        input_NG: Tensor,
        feed_GO: Tensor,
        state_GD: Tensor,
        readout_OR: Tensor,
        readout_bias_O: Tensor,
        state_BD: Tensor,
        cell_BD: Tensor,
        keys_BSD: Tensor,
        values_BSC: Tensor,
    ) -> tuple[Tensor, Tensor]:
        tokens, size, feed_size, context = len(input_NG), state_BD.shape[1], len(readout_OR), values_BSC.shape[2]
        fresh = input_NG.new_empty
        gates_NG, recurrent_NJ, read_NR = (
            torch.empty_like(input_NG),
            fresh(tokens, feed_size + size),
            fresh(tokens, context + size),
        )
        cells_ND, tanh_cells_ND, tanh_NO = fresh(tokens, size), fresh(tokens, size), fresh(tokens, feed_size)
        weights_NS = fresh(tokens, keys_BSD.shape[1])
        states_NO = tanh_NO if dropout_NO is None else torch.empty_like(tanh_NO)
        weight_JG, readout_RO = padded_stride(torch.cat([feed_GO, state_GD], 1).t()), padded_stride(readout_OR.t())
        state, feed, cell_BD = state_BD, state_BD.new_zeros(len(state_BD), feed_size), cell_BD.clone()
        for span in spans:
            rows = span.stop - span.start
            gates, recurrent, read, cell, tanh_cell = (
                gates_NG[span],
                recurrent_NJ[span],
                read_NR[span],
                cell_BD[:rows],
                tanh_cells_ND[span],
            )
            recurrent[:, :feed_size], recurrent[:, feed_size:] = feed[:rows], state[:rows]
            cells_ND[span] = cell
            torch.addmm(input_NG[span], recurrent, weight_JG, out=gates)
            activate(gates, size, gates)
            i, f, g, o = gates.chunk(4, -1)
            cell.mul_(f).addcmul_(i, g)
            torch.tanh(cell, out=tanh_cell)
            state = torch.mul(o, tanh_cell, out=read[:, context:])
            scores_BS = torch.bmm(state[:, None], keys_BSD[:rows].transpose(1, 2))[:, 0].add_(mask_BS[:rows])
            weights_BS = torch.softmax(scores_BS, -1, out=weights_NS[span])
            read[:, :context] = torch.bmm(weights_BS[:, None], values_BSC[:rows])[:, 0]
            feed = torch.addmm(readout_bias_O, read, readout_RO, out=tanh_NO[span]).tanh_()
            if dropout_NO is not None:
                feed = torch.mul(feed, dropout_NO[span], out=states_NO[span])
        ctx.spans = spans
        ctx.save_for_backward(
            dropout_NO,
            feed_GO,
            state_GD,
            readout_OR,
            keys_BSD,
            values_BSC,
            gates_NG,
            recurrent_NJ,
            read_NR,
            cells_ND,
            tanh_cells_ND,
            tanh_NO,
            weights_NS,
        )
        ctx.mark_non_differentiable(weights_NS)
        return states_NO, weights_NS

    @staticmethod
    def backward(ctx: Any, states_grad_NO: Tensor, unused: Tensor) -> tuple[Tensor | None, ...]:
        dropout_NO, feed_GO, state_GD, readout_OR, keys_BSD, values_BSC, *saved = ctx.saved_tensors
        gates_NG, recurrent_NJ, read_NR, cells_ND, tanh_cells_ND, tanh_NO, weights_NS = saved
        batch, size, feed_size, context = len(keys_BSD), state_GD.shape[1], len(readout_OR), values_BSC.shape[2]
        gates_grad_NG, tanh_grad_NO, scores_grad_NS = map(torch.empty_like, (gates_NG, tanh_NO, weights_NS))
        context_grad_NC = read_NR.new_empty(len(read_NR), context)
        weight_GJ, readout_back_OR = padded_stride(torch.cat([feed_GO, state_GD], 1)), padded_stride(readout_OR)
        recurrent_grad_BJ = read_NR.new_zeros(batch, feed_size + size)
        cell_grad_BD = read_NR.new_zeros(batch, size)
        for span in reversed(ctx.spans):
            rows = span.stop - span.start
            recurrent_grad, cell_grad = recurrent_grad_BJ[:rows], cell_grad_BD[:rows]
            tanh_grad = torch.add(states_grad_NO[span], recurrent_grad[:, :feed_size], out=tanh_grad_NO[span])
            if dropout_NO is not None:
                tanh_grad.mul_(dropout_NO[span])
            torch.ops.aten.tanh_backward(tanh_grad, tanh_NO[span], grad_input=tanh_grad)
            read_grad_BR = tanh_grad @ readout_back_OR
            context_grad, state_grad = read_grad_BR[:, :context], read_grad_BR[:, context:]
            context_grad_NC[span] = context_grad
            weights_grad = torch.bmm(context_grad[:, None], values_BSC[:rows].transpose(1, 2))[:, 0]
            weights = weights_NS[span]
            scores_grad_BS = weights_grad.sub_((weights * weights_grad).sum(-1, keepdim=True)).mul_(weights)
            scores_grad_NS[span] = scores_grad_BS
            state_grad += recurrent_grad[:, feed_size:]
            state_grad += torch.bmm(scores_grad_BS[:, None], keys_BSD[:rows])[:, 0]
            gates_grad = gates_grad_NG[span]
            cell_grad.copy_(
                gates_gradient(gates_NG[span], cells_ND[span], tanh_cells_ND[span], state_grad, cell_grad, gates_grad)
            )
            torch.mm(gates_grad, weight_GJ, out=recurrent_grad)
        states_ND = read_NR[:, context:]
        return (
            None,
            None,
            None,
            gates_grad_NG,
            gates_grad_NG.t() @ recurrent_NJ[:, :feed_size],
            gates_grad_NG.t() @ recurrent_NJ[:, feed_size:],
            tanh_grad_NO.t() @ read_NR,
            tanh_grad_NO.sum(0),
            recurrent_grad_BJ[:, feed_size:],
            cell_grad_BD,
            _sum_outer_products(scores_grad_NS, states_ND, ctx.spans, batch),
            _sum_outer_products(weights_NS, context_grad_NC, ctx.spans, batch),
        )


def _sum_outer_products(rows_NS: Tensor, columns_ND: Tensor, spans: list[slice], batch: int) -> Tensor:
    """(B, S, D) for every row of the batch, the sum of its tokens' outer products."""
    rows_BTS = rows_NS.new_zeros(batch, len(spans), rows_NS.shape[1])
    columns_BTD = columns_ND.new_zeros(batch, len(spans), columns_ND.shape[1])
    for time, span in enumerate(spans):
        rows_BTS[: span.stop - span.start, time] = rows_NS[span]
        columns_BTD[: span.stop - span.start, time] = columns_ND[span]
    return rows_BTS.transpose(1, 2) @ columns_BTD
