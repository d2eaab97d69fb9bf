"""Recurrent decoders over whole targets: versions of `weft.models.recurrent_decoder.RecurrentDecoder.run`.

    whole_layers        nothing of the attention enters the recurrence: layer after layer, then one attention
    input_feeding       one LSTM layer and the softmax of a dot product, on a CPU: `weft.fast.cpu.input_feeding`
    deferred_steps      any other decoder, one step after the other: W y_{t−1} + b of all tokens is computed before the
                        loop, [x; h] is multiplied by [W U] where the cell sums them, the gradients of weights, keys
                        and values are computed after the loop (`weft.fast.layers.deferred_gradients`), and so is the
                        readout, unless it is fed to the next step

Compared with the plain function by tests/fast/layers/test_recurrent_decoder.py. Recorded updates on a GPU have one more
version: `weft.fast.layers.padded_input_feeding`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.attention import Attention, ProjectedKeys
from weft.attention.normalizers import softmax
from weft.attention.scores import Score
from weft.fast.layers.deferred_gradients import DeferredMatrices, LinearMap, deferred_linear
from weft.fast.layers.dropout import dropout_mask
from weft.fast.layers.recurrent import has_weights
from weft.models.layers import dropout
from weft.models.recurrent import LSTM, Cell, LayerState, RecurrentStack, StackState
from weft.models.recurrent_decoder import DecoderState, Memory, RecurrentDecoder, concatenate
from weft.ragged import PaddedTimeMajor, Ragged
from weft.tree import first, map_tree

Run = tuple[Tensor, Tensor | None]
"""ã_t of every target token (N, D), and α_t (B, T, S) on request."""


# Layer by layer


def is_layer_by_layer(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> bool:
    stepwise = decoder.attention is not None and decoder.attention.is_stepwise
    return not (decoder.attends_before or decoder.input_feeding or stepwise)


def whole_layers(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> Run:
    """The stack over whole targets, then one attention."""
    summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
    inputs = embedded if summary_ND is None else embedded.like(torch.cat([embedded.values, summary_ND], -1))
    outputs, _ = decoder.stack(inputs, memory.initial)
    context_ND = weights_BTS = None
    if decoder.attention is not None and memory.keys is not None:
        context, weights_BTS = decoder.attention.attend_ragged(outputs, memory.keys)
        context_ND = context.values
    states_ND = decoder.read(context_ND, summary_ND, outputs.values, embedded.values)
    return states_ND, weights_BTS if return_attention else None


# The kernel for input feeding


def is_input_feeding_lstm(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> bool:
    """Whether this is one LSTM layer and the softmax of a dot product, whose weights need no gradient."""
    attention = decoder.attention
    return (
        not embedded.values.is_cuda
        and not (return_attention and torch.is_grad_enabled())
        and decoder.input_feeding
        and isinstance(attention, Attention)
        and attention.normalize is softmax
        and attention.window is None
        and attention.score.form == "dot"
        and is_plain_lstm(decoder.stack)
        and len(decoder.stack.layers) == 1
        and not decoder.feeds_summary
    )


def is_plain_lstm(stack: RecurrentStack) -> bool:
    """Whether these are unidirectional LSTM layers without normalization, one on top of the other."""
    is_plain = has_weights(stack) and stack.connections == "plain" and isinstance(stack.norms[0], torch.nn.Identity)
    return is_plain and stack.cell is LSTM and stack.directions == 1


def input_feeding(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> Run:
    """Input feeding by its kernel, which has its own backward pass."""
    from weft.fast.cpu.input_feeding import FeedingWeights, feed_inputs

    assert memory.keys is not None and decoder.readout is not None
    order, layer = embedded.layout.time_major, decoder.stack.weights(0)
    bias_G = layer.input_bias_G + layer.state_bias_G
    embedded_NE = order.sort(embedded.values)
    dropout_NO = None
    if decoder.training and decoder.dropout:
        dropout_NO = dropout_mask((len(embedded_NE), decoder.size), decoder.dropout, embedded_NE.dtype)
    [(state_BD, cell_BD)], keys = map_tree(order.sort_rows, (memory.initial, memory.keys))
    size = decoder.embedding_size
    output = feed_inputs(
        functional.linear(embedded_NE, layer.input_GD[:, :size], bias_G),
        FeedingWeights(layer.input_GD[:, size:], layer.state_GD, decoder.readout.weight, decoder.readout.bias),
        state_BD=state_BD,
        cell_BD=cell_BD,
        keys_BSD=keys.keys_BSD,
        values_BSC=keys.values_BSD,
        mask_BS=keys.mask_BS,
        dropout_NO=dropout_NO,
        batch_sizes=order.batch_sizes,
    )
    weights_BTS = embedded.like(order.unsort(output.weights_NS)).to_padded() if return_attention else None
    return order.unsort(output.states_NO), weights_BTS


# Step by step


class LayerMaps(NamedTuple):
    """The linear maps of one layer's step."""

    input_map: LinearMap | None
    """W x_t + b, of the inputs that are not known before the loop; None: there are none, or ``state_map`` reads [x; h].
    """
    state_map: LinearMap
    """U h_{t−1} + b′, or the sum of both."""

    def step(
        self, cell: type[Cell], inputs_BD: Tensor | None, added_BG: Tensor | None, state: LayerState
    ) -> LayerState:
        """The next state of the layer; ``added_BG``: the part of W x_t + b that is already computed."""
        if cell.sums_gates and (inputs_BD is None or self.input_map is None):
            inputs = (state[0],) if inputs_BD is None else (inputs_BD, state[0])
            gates_BG = self.state_map(*inputs, added=added_BG)
            return cell.step(gates_BG, torch.zeros_like(gates_BG), state)
        if self.input_map is not None and inputs_BD is not None:
            added_BG = self.input_map(inputs_BD, added=added_BG)
        assert added_BG is not None
        return cell.step(added_BG, self.state_map(state[0]), state)


class DecoderMaps:
    """The linear maps of a decoder's step, made once before a loop so that each weight gets its gradient after it."""

    def __init__(self, decoder: RecurrentDecoder) -> None:
        stack = decoder.stack
        self.decoder = decoder
        self.first = stack.weights(0)
        self.layers = [layer_maps(stack, level, decoder.embedding_size) for level in range(len(stack.layers))]
        readout = decoder.readout
        self.readout = None if readout is None else deferred_linear(readout.weight, readout.bias)

    def read(
        self, context_ND: Tensor | None, summary_ND: Tensor | None, output_ND: Tensor, embedded_NE: Tensor
    ) -> Tensor:
        """`RecurrentDecoder.read`."""
        decoder = self.decoder
        if self.readout is None:
            return decoder.read(context_ND, summary_ND, output_ND, embedded_NE)
        embedded = embedded_NE if decoder.readout_has_embedding else None
        read_ND = torch.tanh(self.readout(concatenate(context_ND, summary_ND, output_ND, embedded)))
        return dropout(read_ND, decoder.dropout, decoder.training)

    def input_gates(self, embedded_NE: Tensor) -> Tensor:
        """W y_{t−1} + b of the first layer."""
        return functional.linear(
            embedded_NE, self.first.input_GD[:, : self.decoder.embedding_size], self.first.input_bias_G
        )


def layer_maps(stack: RecurrentStack, level: int, embedding_size: int) -> LayerMaps:
    layer = stack.weights(level)
    input_GD = layer.input_GD if level else layer.input_GD[:, embedding_size:]
    input_bias_G = layer.input_bias_G if level else None  # in the first layer it is part of `DecoderMaps.input_gates`
    if input_GD.shape[1] == 0:
        return LayerMaps(None, deferred_linear(layer.state_GD, layer.state_bias_G))
    if stack.cell.sums_gates:
        bias_G = layer.state_bias_G if input_bias_G is None else layer.state_bias_G + input_bias_G
        return LayerMaps(None, deferred_linear((input_GD, layer.state_GD), bias_G))
    state_map = deferred_linear(layer.state_GD, layer.state_bias_G)
    return LayerMaps(deferred_linear(input_GD, input_bias_G), state_map)


class StepBeforeReadout(NamedTuple):
    output_BD: Tensor
    """s_t, with input feeding ã_t."""
    context_BD: Tensor | None
    weights_BS: Tensor | None
    state: DecoderState


def is_step_by_step(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> bool:
    return has_weights(decoder.stack)


def deferred_steps(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool) -> Run:
    """One step after the other, for the rows that have not ended."""
    order = embedded.layout.time_major
    maps = DecoderMaps(decoder)
    summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
    memory = map_tree(order.sort_rows, memory)
    if torch.is_grad_enabled() and _has_own_scores(decoder):
        memory = memory._replace(keys=_deferred(memory.keys))
    embedded_NE = order.sort(embedded.values)
    if isinstance(order, PaddedTimeMajor):  # of tokens alone, not of padding
        input_NG = order.sort(maps.input_gates(order.unsort(embedded_NE)))
    else:
        input_NG = maps.input_gates(embedded_NE)
    input_gates = input_NG.split(order.batch_sizes)
    state = decoder.start(memory)
    steps: list[StepBeforeReadout] = []
    running = embedded.rows
    for embedded_BE, input_BG in zip(embedded_NE.split(order.batch_sizes), input_gates, strict=True):
        if len(embedded_BE) < running:
            running = len(embedded_BE)
            state, memory = first((state, memory), running)
        steps.append(step_before_readout(decoder, maps, embedded_BE, input_BG, state, memory))
        state = steps[-1].state
    states_ND = order.unsort(torch.cat([step.output_BD for step in steps]))
    if not decoder.input_feeding:
        context_ND = order.unsort(torch.cat([step.context_BD for step in steps if step.context_BD is not None]))
        states_ND = decoder.read(context_ND, summary_ND, states_ND, embedded.values)
    weights_BTS = None
    if return_attention:
        weights_NS = torch.cat([step.weights_BS for step in steps if step.weights_BS is not None])
        weights_BTS = embedded.like(order.unsort(weights_NS)).to_padded()
    return states_ND, weights_BTS


def _has_own_scores(decoder: RecurrentDecoder) -> bool:
    """Whether every score is one of weft, which multiply deferred keys; a user's score takes tensors."""
    attentions = getattr(decoder.attention, "attentions", [decoder.attention])  # to the columns of a source
    scores = [getattr(attention, "score", None) for attention in attentions]
    return all(type(score).__module__ == Score.__module__ for score in scores)


def _deferred(keys: Any) -> Any:
    """Keys and values whose gradients are computed after the last step."""
    if not isinstance(keys, ProjectedKeys):  # those of several source columns
        return keys._replace(columns=tuple(map(_deferred, keys.columns)))
    deferred: dict[str, Any] = {name: DeferredMatrices(getattr(keys, name)) for name in ("keys_BSD", "values_BSD")}
    return keys._replace(**deferred)


def step_before_readout(
    decoder: RecurrentDecoder,
    maps: DecoderMaps,
    embedded_BE: Tensor,
    input_BG: Tensor,
    state: DecoderState,
    memory: Memory,
) -> StepBeforeReadout:
    """`RecurrentDecoder.step`, the readout with input feeding only; ``input_BG``: W y_{t−1} + b of the first layer.

    The memory has as many rows as the hypotheses, but for the keys.
    """
    context_BD = weights_BS = None
    if decoder.attends_before:
        context_BD, weights_BS = decoder.attend(state.layers[-1][0], memory, state.history)
    extras = [extra for extra in (context_BD, state.attentional_BD, memory.summary_BD) if extra is not None]
    extra_BD = torch.cat(extras, -1) if len(extras) > 1 else extras[0] if extras else None
    output_BD, layers = _step_stack(decoder.stack, maps, embedded_BE, extra_BD, input_BG, state.layers)
    if decoder.attends_after:
        context_BD, weights_BS = decoder.attend(output_BD, memory, state.history)
    attentional_BD = None
    if decoder.input_feeding:
        attentional_BD = output_BD = maps.read(context_BD, memory.summary_BD, output_BD, embedded_BE)
    history = state.history
    if history is not None and weights_BS is not None:
        history = history.advance(weights_BS)
    return StepBeforeReadout(output_BD, context_BD, weights_BS, DecoderState(layers, attentional_BD, history))


def _step_stack(
    stack: RecurrentStack,
    maps: DecoderMaps,
    embedded_BE: Tensor,
    extra_BD: Tensor | None,
    input_BG: Tensor,
    state: StackState,
) -> tuple[Tensor, StackState]:
    """`RecurrentStack.step` for the input [y_{t−1}; …], of which ``extra_BD`` is not known before the loop."""
    current_BD = embedded_BE
    if stack.connections != "plain" and extra_BD is not None:  # which read the whole input
        current_BD = torch.cat([embedded_BE, extra_BD], -1)
    states: list[LayerState] = []
    for level, layer in enumerate(maps.layers):
        inputs_BD, added_BG = (current_BD, None) if level else (extra_BD, input_BG)
        states.append(layer.step(stack.cell, inputs_BD, added_BG, state[level]))
        current_BD = stack.layer_output(level, current_BD, states[-1][0])
    return current_BD, tuple(states)
