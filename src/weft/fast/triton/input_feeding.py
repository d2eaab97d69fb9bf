"""LSTM decoders with input feeding (Luong et al. 2015, 3.3) over padded targets on CUDA, with their backward pass.

Plain counterpart: `weft.models.recurrent_decoder.RecurrentDecoder.run`. Tested in
tests/fast/triton/test_input_feeding.py.

    layer 1       a_t = E_t + W¹ [ã_{t−1}; h¹_{t−1}]                       E_t = W y_{t−1} + b
    layer l > 1   a_t = Wˡ [dropout(hˡ⁻¹_t); hˡ_{t−1}] + bˡ                hˡ_t, cˡ_t = LSTM(a_t, cˡ_{t−1})
    α_t, c_t      by attention with the query hᴸ_t                         (attention_step.py)
    ã_t           = dropout(tanh(R [c_t; hᴸ_t] + b))

A time step is a product and a kernel for each of these lines, in both passes; what each line reads is written where it
reads it by the one before. Every weight gets its gradient from one product, after the last step. All rows run for all
steps. First-order gradients only, and one backward pass.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.attention_step import attend, attend_backward, keys_gradient
from weft.fast.triton.column_sums import column_sums
from weft.fast.triton.lstm import BLOCK, StepDropout, cell_backward, cell_forward, is_kept, tanh


@triton.jit
def _readout(  # type: ignore[no-untyped-def]
    read, bias, activated, outputs, fed, seeds, count, size, fed_stride, counter, threshold, factor,
    is_fed: tl.constexpr, drops: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """ã_t from R [c_t; h_t]: to ``outputs``, and to where the next step reads it."""
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    x = tanh(tl.load(read + e, mask=valid, other=0.0) + tl.load(bias + d, mask=valid, other=0.0))
    tl.store(activated + e, x, mask=valid)
    if drops:
        x = tl.where(is_kept(seeds, counter + e, threshold), x * factor, 0.0)
        tl.store(outputs + e, x, mask=valid)
    if is_fed:
        tl.store(fed + n * fed_stride + d, x, mask=valid)


@triton.jit
def _readout_backward(  # type: ignore[no-untyped-def]
    d_outputs, d_fed, activated, d_read, seeds, count, size, fed_stride, counter, threshold, factor,
    drops: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    dx = tl.load(d_outputs + e, mask=valid, other=0.0)
    dx += tl.load(d_fed + n * fed_stride + d, mask=valid, other=0.0)
    if drops:
        dx = tl.where(is_kept(seeds, counter + e, threshold), dx * factor, 0.0)
    x = tl.load(activated + e, mask=valid, other=0.0)
    tl.store(d_read + e, dx * (1.0 - x * x), mask=valid)


class FeedingDropout(NamedTuple):
    """The dropout between layers and of the readout, with a seed for each of them."""

    probability: float
    seeds: Tensor

    def step(self, which: int, time: int, like: Tensor) -> StepDropout:
        """Dropout of a time step; ``which``: the index of the layer, or the number of layers for the readout."""
        return StepDropout(self.seeds[which], time * like.numel(), self.probability)


class FeedingSource(NamedTuple):
    """The source that is attended to."""

    keys_BSA: Tensor
    values_BSC: Tensor
    mask_BS: Tensor
    query_AD: Tensor | None
    """The projection of the queries, with a hidden layer."""
    vector_A: Tensor | None
    """v, with a hidden layer; None: the score is a dot product."""


class FeedingWeights(NamedTuple):
    """The weights of the layers and of the readout."""

    layers: list[Tensor]
    """W¹, …, Wᴸ."""
    biases: list[Tensor]
    """b², …, bᴸ."""
    readout_OR: Tensor
    readout_bias_O: Tensor


class _Buffers(NamedTuple):
    """Buffers that the forward pass leaves for the backward pass."""

    gates: list[Tensor]
    """(T, B, 4D) of each layer: activated, then their gradients."""
    inputs: list[Tensor]
    """(T, B, I + D) the input of each layer."""
    cells: list[Tensor]
    """(T, B, D) of each layer."""
    read_TBR: Tensor
    """[c_t; h_t]"""
    queries_TBA: Tensor
    weights_TBS: Tensor
    activated_TBO: Tensor


def _make_buffers(input_TBG: Tensor, weights: FeedingWeights, source: FeedingSource) -> _Buffers:
    times, batch, gates = input_TBG.shape
    size, fed = gates // 4, len(weights.readout_OR)

    def empty(width: int) -> Tensor:
        return input_TBG.new_empty(times, batch, width)

    upper = range(1, len(weights.layers))
    read_TBR = empty(source.values_BSC.shape[2] + size)
    top_TBD = read_TBR[..., source.values_BSC.shape[2] :]
    return _Buffers(
        gates=[input_TBG.clone(memory_format=torch.contiguous_format), *(empty(gates) for _ in upper)],
        inputs=[empty(weight_GJ.shape[1]) for weight_GJ in weights.layers],
        cells=[empty(size) for _ in weights.layers],
        read_TBR=read_TBR,
        queries_TBA=top_TBD if source.query_AD is None else empty(len(source.query_AD)),
        weights_TBS=empty(source.mask_BS.shape[1]),
        activated_TBO=empty(fed),
    )


class _InputFeeding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        layers: int,
        dropout: FeedingDropout | None,
        input_TBG: Tensor,
        keys_BSA: Tensor,
        values_BSC: Tensor,
        mask_BS: Tensor,
        query_AD: Tensor | None,
        vector_A: Tensor | None,
        readout_OR: Tensor,
        readout_bias_O: Tensor,
        *rest: Tensor,
    ) -> Tensor:
        """``rest``: weights, biases but the first, h_0 and c_0 of all layers."""
        source = FeedingSource(keys_BSA.contiguous(), values_BSC.contiguous(), mask_BS, query_AD, vector_A)
        weights = FeedingWeights(list(rest[:layers]), list(rest[layers : 2 * layers - 1]), readout_OR, readout_bias_O)
        states, cells = rest[2 * layers - 1 : 3 * layers - 1], [cell.contiguous() for cell in rest[3 * layers - 1 :]]
        buffers = _make_buffers(input_TBG, weights, source)
        outputs_TBO = buffers.activated_TBO if dropout is None else torch.empty_like(buffers.activated_TBO)
        fed = len(readout_OR)
        for inputs, state, width in zip(buffers.inputs, states, _input_widths(weights), strict=True):
            inputs[0, :, width:] = state
        buffers.inputs[0][0, :, :fed] = 0.0
        for time in range(len(input_TBG)):
            _advance(time, buffers, weights, source, cells, dropout, outputs_TBO)
        ctx.dropout, ctx.layers, ctx.spent = dropout, layers, False
        flat = (*buffers.gates, *buffers.inputs, *buffers.cells, *buffers[3:])
        ctx.save_for_backward(*source, readout_OR, readout_bias_O, *rest, *flat)
        return outputs_TBO

    @staticmethod
    def backward(ctx: Any, d_outputs_TBO: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.spent:
            raise RuntimeError("input feeding: a second backward pass, but the first has overwritten what it needs")
        ctx.spent = True
        layers = ctx.layers
        source, rest = FeedingSource(*ctx.saved_tensors[:5]), ctx.saved_tensors[7:]
        weights = FeedingWeights(list(rest[:layers]), list(rest[layers : 2 * layers - 1]), *ctx.saved_tensors[5:7])
        first_cells, flat = (
            [cell.contiguous() for cell in rest[3 * layers - 1 : 4 * layers - 1]],
            rest[4 * layers - 1 :],
        )
        buffers = _Buffers(
            list(flat[:layers]),
            list(flat[layers : 2 * layers]),
            list(flat[2 * layers : 3 * layers]),
            *flat[3 * layers :],
        )
        return None, None, *_gradients(d_outputs_TBO.contiguous(), buffers, weights, source, first_cells, ctx.dropout)


def _input_widths(weights: FeedingWeights) -> list[int]:
    """The width of each layer's input without its own state."""
    return [weight_GJ.shape[1] - weight_GJ.shape[0] // 4 for weight_GJ in weights.layers]


def _advance(
    time: int,
    buffers: _Buffers,
    weights: FeedingWeights,
    source: FeedingSource,
    first_cells: list[Tensor],
    dropout: FeedingDropout | None,
    outputs_TBO: Tensor,
) -> None:
    """One time step of the equations."""
    last, top = time + 1 == len(outputs_TBO), len(weights.layers) - 1
    read_BR, context = buffers.read_TBR[time], source.values_BSC.shape[2]
    for level, (weight_GJ, width) in enumerate(zip(weights.layers, _input_widths(weights), strict=True)):
        gates_BG, inputs_BJ = buffers.gates[level][time], buffers.inputs[level][time]
        cells_BD = buffers.cells[level][time]
        if level == 0:
            torch.addmm(gates_BG, inputs_BJ, weight_GJ.t(), out=gates_BG)
        else:
            torch.mm(inputs_BJ, weight_GJ.t(), out=gates_BG)
        cell_forward(
            gates_BG,
            buffers.cells[level][time - 1] if time else first_cells[level],
            cells_BD,
            read_BR[:, context:] if level == top else buffers.inputs[level + 1][time][:, : cells_BD.shape[1]],
            bias_G=weights.biases[level - 1] if level else None,
            states_BD=None if last else buffers.inputs[level][time + 1][:, width:],
            dropout=None if dropout is None or level == top else dropout.step(level, time, cells_BD),
        )
    queries_BA = buffers.queries_TBA[time]
    if source.query_AD is not None:
        torch.mm(read_BR[:, context:], source.query_AD.t(), out=queries_BA)
    weights_BS = buffers.weights_TBS[time]
    attend(
        queries_BA,
        source.keys_BSA,
        source.vector_A,
        source.values_BSC,
        source.mask_BS,
        weights_BS,
        read_BR[:, :context],
    )
    activated_BO = buffers.activated_TBO[time]
    torch.mm(read_BR, weights.readout_OR.t(), out=activated_BO)
    step = None if dropout is None else dropout.step(top, time, activated_BO)
    fed_BJ = buffers.inputs[0][time if last else time + 1]
    _readout[(triton.cdiv(activated_BO.numel(), BLOCK),)](
        activated_BO, weights.readout_bias_O, activated_BO, outputs_TBO[time], fed_BJ,
        activated_BO if step is None else step.seeds, activated_BO.numel(), activated_BO.shape[1], fed_BJ.stride(0),
        *((0, 0, 1.0) if step is None else step.options), is_fed=not last, drops=step is not None, block=BLOCK,
    )  # fmt: skip


class _Running(NamedTuple):
    """Gradients that one step of the backward pass hands to the step before it."""

    inputs: list[Tensor]
    """(B, I + D) of what each layer read."""
    cells: list[Tensor]
    """(B, D)"""


def _retreat(
    time: int,
    d_outputs_TBO: Tensor,
    buffers: _Buffers,
    weights: FeedingWeights,
    source: FeedingSource,
    first_cells: list[Tensor],
    dropout: FeedingDropout | None,
    running: _Running,
    results: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """One step of the backward pass; ``results``: gradients of activations, [c; h], scores and queries, by time."""
    d_activated_BO, d_read_BR, d_scores_BS, d_queries_BA = (result[time] for result in results)
    top, context = len(weights.layers) - 1, source.values_BSC.shape[2]
    step = None if dropout is None else dropout.step(top, time, d_activated_BO)
    _readout_backward[(triton.cdiv(d_activated_BO.numel(), BLOCK),)](
        d_outputs_TBO[time], running.inputs[0], buffers.activated_TBO[time], d_activated_BO,
        d_activated_BO if step is None else step.seeds, d_activated_BO.numel(), d_activated_BO.shape[1],
        running.inputs[0].stride(0), *((0, 0, 1.0) if step is None else step.options), drops=step is not None,
        block=BLOCK,
    )  # fmt: skip
    torch.mm(d_activated_BO, weights.readout_OR, out=d_read_BR)
    d_top_BD = d_read_BR[:, context:]
    attend_backward(
        buffers.queries_TBA[time], source.keys_BSA, source.vector_A, source.values_BSC, buffers.weights_TBS[time],
        d_read_BR[:, :context], d_scores_BS, d_top_BD if source.query_AD is None else d_queries_BA,
    )  # fmt: skip
    if source.query_AD is not None:
        torch.addmm(d_top_BD, d_queries_BA, source.query_AD, out=d_top_BD)
    widths = _input_widths(weights)
    for level in reversed(range(top + 1)):
        gates_BG, cells_BD = buffers.gates[level][time], buffers.cells[level][time]
        cell_backward(
            gates_BG,
            buffers.cells[level][time - 1] if time else first_cells[level],
            cells_BD,
            d_top_BD if level == top else running.inputs[level + 1][:, : cells_BD.shape[1]],
            running.inputs[level][:, widths[level] :],
            running.cells[level],
            dropout=None if dropout is None or level == top else dropout.step(level, time, cells_BD),
        )
        torch.mm(gates_BG, weights.layers[level], out=running.inputs[level])


def _gradients(
    d_outputs_TBO: Tensor,
    buffers: _Buffers,
    weights: FeedingWeights,
    source: FeedingSource,
    first_cells: list[Tensor],
    dropout: FeedingDropout | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs of `_InputFeeding`, in their order."""
    running = _Running(
        [torch.zeros_like(inputs[0]) for inputs in buffers.inputs], [torch.zeros_like(cell) for cell in first_cells]
    )
    d_queries_TBA = buffers.queries_TBA if source.query_AD is None else torch.empty_like(buffers.queries_TBA)
    made = (buffers.activated_TBO, buffers.read_TBR, buffers.weights_TBS)
    d_activated_TBO, d_read_TBR, d_scores_TBS = map(torch.empty_like, made)
    results = (d_activated_TBO, d_read_TBR, d_scores_TBS, d_queries_TBA)
    for time in reversed(range(len(d_outputs_TBO))):
        _retreat(time, d_outputs_TBO, buffers, weights, source, first_cells, dropout, running, results)
    context = source.values_BSC.shape[2]
    tops_ND = buffers.read_TBR[..., context:].flatten(0, 1)
    d_scores_BST = d_scores_TBS.permute(1, 2, 0)
    if source.query_AD is None or source.vector_A is None:
        d_keys_BSA, d_query_AD, d_vector_A = d_scores_BST @ buffers.queries_TBA.transpose(0, 1), None, None
    else:
        d_keys_BSA, d_vector_A = keys_gradient(buffers.queries_TBA, source.keys_BSA, source.vector_A, d_scores_TBS)
        d_query_AD = d_queries_TBA.flatten(0, 1).t() @ tops_ND
    d_values_BSC = buffers.weights_TBS.permute(1, 2, 0) @ d_read_TBR[..., :context].transpose(0, 1)
    d_activated_NO = d_activated_TBO.flatten(0, 1)
    d_gates = [gates.flatten(0, 1) for gates in buffers.gates]
    return (
        buffers.gates[0],
        d_keys_BSA,
        d_values_BSC,
        None,
        d_query_AD,
        d_vector_A,
        d_activated_NO.t() @ buffers.read_TBR.flatten(0, 1),
        column_sums(d_activated_NO),
        *(gates.t() @ inputs.flatten(0, 1) for gates, inputs in zip(d_gates, buffers.inputs, strict=True)),
        *(column_sums(gates) for gates in d_gates[1:]),
        *(inputs[:, width:] for inputs, width in zip(running.inputs, _input_widths(weights), strict=True)),
        *running.cells,
    )


def feed_inputs(
    input_TBG: Tensor,
    weights: FeedingWeights,
    source: FeedingSource,
    *,
    states: list[Tensor],
    cells: list[Tensor],
    probability: float,
) -> Tensor:
    """(T, B, O) ã_t; ``input_TBG``: E_t; ``states``, ``cells``: h_0 and c_0 of all layers."""
    layers = len(weights.layers)
    dropout = None
    if probability:
        dropout = FeedingDropout(probability, torch.randint(2**62, (layers, 1), device=input_TBG.device))
    parts = (*weights.layers, *weights.biases, *states, *cells)
    outputs_TBO: Tensor = _InputFeeding.apply(
        layers, dropout, input_TBG, *source, weights.readout_OR, weights.readout_bias_O, *parts
    )
    return outputs_TBO
