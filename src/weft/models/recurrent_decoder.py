"""Decoders: what was said so far, and what the source says, become the state that predicts the next token.

A recurrent decoder is cell × attention × where the context enters:

    none      s_t = f(s_{t−1}, y_{t−1})                     the final state starts it (Sutskever et al. 2014)
              s_t = f(s_{t−1}, y_{t−1}, c)                  and c is fed at every step (Cho et al. 2014)
    after     s_t = f(s_{t−1}, y_{t−1}), c_t from s_t       ã_t = tanh(W [c_t; s_t])  (Luong et al. 2015, eq. 5)
              s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])          with input feeding (Luong et al. 2015, 3.3)
    before    c_t from s_{t−1}, s_t = f(s_{t−1}, y_{t−1}, c_t)   (Bahdanau et al. 2015, eq. 4)

The Transformer's decoder: transformer_decoder.py.

Where nothing of the attention enters the recurrence, training makes one call for the recurrence and one for the
attention; where it does, it goes step by step, with the rows that are still running.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention import Attention, AttentionRecord, ProjectedKeys
from weft.attention.scores import Dot, General
from weft.kernels.cpu.input_feeding import Weights, feed_inputs
from weft.kernels.deferred_gradients import LinearMap, as_tensor, deferred_linear
from weft.models.bridge import Bridge
from weft.models.encoders import Encoded
from weft.models.interface import HiddenStates
from weft.models.layers import dropout, dropout_factors
from weft.models.recurrent import RecurrentStack, StackState, StepMaps
from weft.ragged import Ragged
from weft.tree import first, map_tree


class Memory(NamedTuple):
    """What the source says, prepared once and never reordered. First axis of every tensor: the source row."""

    keys: ProjectedKeys | None
    summary_BD: Tensor | None
    """The final encoder state, where it is fed at every step."""
    initial: StackState
    """The decoder's first state."""


class DecoderState(NamedTuple):
    """What a hypothesis has done so far."""

    layers: StackState
    feed_BD: Tensor | None
    """ã_{t−1}, with input feeding."""


class _Maps(NamedTuple):
    """Every linear map of one step, made once before a loop."""

    stack: list[StepMaps]
    readout: LinearMap | None


class _Step(NamedTuple):
    output_BD: Tensor
    """s_t, or ã_t where it was made already."""
    context_BD: Tensor | None
    weights_BS: Tensor | None
    state: DecoderState


class RecurrentDecoder(nn.Module):
    """A stack of cells, an attention or none, and the place where its context enters."""

    def __init__(
        self,
        stack: RecurrentStack,
        bridge: Bridge,
        *,
        embedding: int,
        size: int,
        attention: Attention | None = None,
        context: int = 0,
        placement: str = "after",
        input_feeding: bool = False,
        summary: int = 0,
        dropout: float = 0.0,
    ) -> None:
        """``size``: of the states given; ``context``: of the attention's values; ``summary``: of what is always fed."""
        super().__init__()
        self.stack = stack
        self.bridge = bridge
        self.embedding = embedding
        self.size = size
        self.attention = attention
        self.looks_before = attention is not None and placement == "before"
        self.looks_after = attention is not None and placement == "after"
        self.input_feeding = input_feeding
        self.feeds_summary = summary > 0
        self.dropout = dropout
        # The output sees what the papers let it see: Luong [c; s], Bahdanau and Cho [c; s; y].
        self.reads_embedding = self.feeds_summary or self.looks_before
        read = context + summary + stack.hidden + (embedding if self.reads_embedding else 0)
        self.readout = None if read == stack.hidden == size else nn.Linear(read, size)

    def remember(self, encoded: Encoded) -> Memory:
        """What is kept of a source."""
        keys = None if self.attention is None else self.attention.project(encoded.states)
        final = encoded.last()
        return Memory(keys, final[-1][0] if self.feeds_summary else None, self.bridge(final))

    def start(self, memory: Memory) -> DecoderState:
        top_BD = memory.initial[0][0]
        feed_BD = top_BD.new_zeros(len(top_BD), self.size) if self.input_feeding else None
        return DecoderState(memory.initial, feed_BD)

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """One step for R rows; the rows of one source stand side by side, so R is a multiple of memory's rows."""
        maps = self._maps()
        done = self._advance(embedded_RE, self._of_embedded(embedded_RE), state, memory, maps)
        output_RD = done.output_BD
        if not self.input_feeding:
            summary_RD = _spread(memory.summary_BD, len(embedded_RE))
            output_RD = self._read(maps.readout, output_RD, done.context_BD, summary_RD, embedded_RE)
        return output_RD, done.state, done.weights_BS

    def forward(self, embedded: Ragged, encoded: Encoded, *, return_attention: bool = False) -> HiddenStates:
        """Teacher forcing: the states for whole targets. The attention is recorded as one layer with one head."""
        memory = self.remember(encoded)
        run = self._step_by_step if self.looks_before or self.input_feeding else self._at_once
        return run(embedded, memory, return_attention)

    def _at_once(self, embedded: Ragged, memory: Memory, return_attention: bool) -> HiddenStates:
        """Nothing of the attention enters the recurrence: one call for it, one for the attention."""
        summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
        inputs = embedded if summary_ND is None else embedded.like(torch.cat([embedded.values, summary_ND], -1))
        outputs, _ = self.stack(inputs, memory.initial)
        context_ND = weights_BTS = None
        if self.attention is not None and memory.keys is not None:
            context, weights_BTS = self.attention.attend_ragged(outputs, memory.keys)
            context_ND = context.values
        readout = self.readout
        states_ND = self._read(readout, outputs.values, context_ND, summary_ND, embedded.values)
        return _hidden_states(embedded, states_ND, weights_BTS if return_attention else None)

    def _step_by_step(self, embedded: Ragged, memory: Memory, return_attention: bool) -> HiddenStates:
        """The context enters the recurrence: one time step after the other, for the rows that are still running."""
        if self._feeds_quickly(embedded) and not (return_attention and torch.is_grad_enabled()):
            return self._quickly(embedded, memory, return_attention)
        order = embedded.layout.time_major
        maps = self._maps()
        summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
        memory = map_tree(order.sort_rows, memory)
        if memory.keys is not None:
            memory = memory._replace(keys=memory.keys.deferred())
        embedded_NE = order.sort(embedded.values)
        of_embedded = order.map(self._of_embedded, embedded_NE).split(order.batch_sizes)
        state = self.start(memory)
        steps: list[_Step] = []
        running = embedded.rows
        for embedded_BE, of_embedded_BG in zip(embedded_NE.split(order.batch_sizes), of_embedded, strict=True):
            if len(embedded_BE) < running:
                running = len(embedded_BE)
                state, memory = first((state, memory), running)
            done = self._advance(embedded_BE, of_embedded_BG, state, memory, maps)
            state = done.state
            steps.append(done)
        states_ND = order.unsort(torch.cat([done.output_BD for done in steps]))
        if not self.input_feeding:
            context_ND = order.unsort(torch.cat([done.context_BD for done in steps if done.context_BD is not None]))
            states_ND = self._read(self.readout, states_ND, context_ND, summary_ND, embedded.values)
        weights_BTS = None
        if return_attention:
            weights_NS = torch.cat([done.weights_BS for done in steps if done.weights_BS is not None])
            weights_BTS = embedded.like(order.unsort(weights_NS)).to_padded()
        return _hidden_states(embedded, states_ND, weights_BTS)

    def _feeds_quickly(self, embedded: Ragged) -> bool:
        """Whether `input_feeding` knows this decoder: one LSTM layer, and a score that is a product with the keys."""
        return (
            self.input_feeding
            and self.looks_after
            and self.attention is not None
            and type(self.attention.score).forward in (Dot.forward, General.forward)
            and self.stack.is_one_lstm
            and not (self.feeds_summary or embedded.values.is_cuda)
        )

    def _quickly(self, embedded: Ragged, memory: Memory, return_attention: bool) -> HiddenStates:
        """The same as step by step, with the gradient written out."""
        assert memory.keys is not None and self.readout is not None
        order, layer = embedded.layout.time_major, self.stack.weights(0)
        bias_G = layer.input_bias_G + layer.state_bias_G
        embedded_NE = order.sort(embedded.values)
        kept_NO = None
        if self.training and self.dropout:
            kept_NO = dropout_factors((len(embedded_NE), self.size), self.dropout, embedded_NE.dtype)
        [(state_BD, memory_BD)], keys = map_tree(order.sort_rows, (memory.initial, memory.keys))
        found = feed_inputs(
            functional.linear(embedded_NE, layer.input_GD[:, : self.embedding], bias_G),
            Weights(layer.input_GD[:, self.embedding :], layer.state_GD, self.readout.weight, self.readout.bias),
            state_BD=state_BD,
            memory_BD=memory_BD,
            keys_BSD=as_tensor(keys.keys_BSD),
            values_BSC=as_tensor(keys.values_BSD),
            bias_BS=keys.mask_BS,
            kept_NO=kept_NO,
            counts=order.batch_sizes,
        )
        weights_BTS = embedded.like(order.unsort(found.weights_NS)).to_padded() if return_attention else None
        return _hidden_states(embedded, order.unsort(found.outputs_NO), weights_BTS)

    def _maps(self) -> _Maps:
        readout = None if self.readout is None else deferred_linear(self.readout.weight, self.readout.bias)
        return _Maps(self.stack.step_maps(self.embedding), readout)

    def _of_embedded(self, embedded_NE: Tensor) -> Tensor:
        """The first layer's map of the embeddings, which need not wait for the recurrence."""
        first_layer = self.stack.weights(0)
        return functional.linear(embedded_NE, first_layer.input_GD[:, : self.embedding], first_layer.input_bias_G)

    def _advance(
        self, embedded_BE: Tensor, of_embedded_BG: Tensor, state: DecoderState, memory: Memory, maps: _Maps
    ) -> _Step:
        """s_{t−1}, y_{t−1} -> s_t, with what the attention saw."""
        context_BD = weights_BS = None
        summary_BD = _spread(memory.summary_BD, len(embedded_BE))
        if self.looks_before:
            context_BD, weights_BS = self._look(state.layers[-1][0], memory)
        extras = [extra for extra in (context_BD, state.feed_BD, summary_BD) if extra is not None]
        extra_BD = torch.cat(extras, -1) if len(extras) > 1 else extras[0] if extras else None
        inputs_BD = None if self.stack.connections == "plain" else torch.cat([embedded_BE, *extras], -1)
        output_BD, layers = self.stack.step(inputs_BD, of_embedded_BG, state.layers, maps.stack, extra_BD)
        if self.looks_after:
            context_BD, weights_BS = self._look(output_BD, memory)
        feed_BD = None
        if self.input_feeding:
            feed_BD = output_BD = self._read(maps.readout, output_BD, context_BD, summary_BD, embedded_BE)
        return _Step(output_BD, context_BD, weights_BS, DecoderState(layers, feed_BD))

    def _look(self, queries_RD: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        assert self.attention is not None and memory.keys is not None
        sources = len(memory.keys.mask_BS)
        answers_BTD, weights_BTS = self.attention(queries_RD.view(sources, -1, queries_RD.shape[-1]), memory.keys)
        return answers_BTD.flatten(0, 1), weights_BTS.flatten(0, 1)

    def _read(
        self,
        readout: LinearMap | None,
        output_ND: Tensor,
        context_ND: Tensor | None,
        summary_ND: Tensor | None,
        embedded_NE: Tensor,
    ) -> Tensor:
        """ã_t = tanh(W [c_t; s_t; y_{t−1}]), of the parts that this decoder has."""
        if readout is None:
            return dropout(output_ND, self.dropout, self.training)
        seen = (context_ND, summary_ND, output_ND, embedded_NE if self.reads_embedding else None)
        read_ND = torch.tanh(readout(torch.cat([part for part in seen if part is not None], -1)))
        return dropout(read_ND, self.dropout, self.training)


def _hidden_states(embedded: Ragged, states_ND: Tensor, weights_BTS: Tensor | None) -> HiddenStates:
    attention = () if weights_BTS is None else (AttentionRecord("cross", 0, weights_BTS[:, None]),)
    return HiddenStates(embedded.like(states_ND), attention)


def _spread(summary_BD: Tensor | None, rows: int) -> Tensor | None:
    """One summary for every row of a search: those of one source stand side by side."""
    if summary_BD is None or len(summary_BD) == rows:
        return summary_BD
    return summary_BD.repeat_interleave(rows // len(summary_BD), 0)
