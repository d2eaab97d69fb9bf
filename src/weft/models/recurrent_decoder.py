"""Recurrent decoders: cell × attention × where the context vector enters.

    none      s_t = f(s_{t−1}, y_{t−1})                     s_0 from the encoder's final state (Sutskever et al. 2014)
              s_t = f(s_{t−1}, y_{t−1}, c)                  c, the final state, at every step (Cho et al. 2014)
    after     s_t = f(s_{t−1}, y_{t−1}), c_t from s_t       ã_t = tanh(W [c_t; s_t])  (Luong et al. 2015, eq. 5)
              s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])          with input feeding (Luong et al. 2015, 3.3)
    before    c_t from s_{t−1}, s_t = f(s_{t−1}, y_{t−1}, c_t)   (Bahdanau et al. 2015, eq. 4)

`RecurrentDecoder.step` is one step of these equations, `forward` the loop over them. Where a faster way gives the same
results, `forward` takes it (see `RecurrentDecoder._fast_forward`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.attention import Attention, AttentionParts, ProjectedKeys
from weft.attention.normalizers import make_normalizer, softmax
from weft.attention.records import AttentionRecord, ReturnAttention
from weft.attention.scores import Dot, General, make_score
from weft.kernels.deferred_gradients import LinearMap, as_tensor, deferred_linear
from weft.models.bridge import make_bridge
from weft.models.encoders import Encoded
from weft.models.interface import HiddenStates
from weft.models.layers import dropout, dropout_mask
from weft.models.recurrent import LayerMaps, RecurrentStack, StackState
from weft.ragged import Ragged
from weft.recipe import AttentionSettings, ModelSettings, RecurrentDecoderSettings
from weft.recipe.choices import WINDOWS, resolve
from weft.tree import first, map_tree

if TYPE_CHECKING:
    from weft.attention.alignment_history import AlignmentHistory
    from weft.attention.windows import Window


class Memory(NamedTuple):
    """The encoder output as this decoder uses it. First axis of every tensor: the source row."""

    keys: ProjectedKeys | None
    """The projected keys and values of the attention; of several source columns, `SeparateKeys`."""
    summary_BD: Tensor | None
    """The final encoder state, if it is an input of every step."""
    initial: StackState
    """s_0 of every layer."""


class DecoderState(NamedTuple):
    """The state of a hypothesis."""

    layers: StackState
    attentional_BD: Tensor | None
    """ã_{t−1}, with input feeding."""
    history: AlignmentHistory | None = None
    """The weights of the steps so far, if the attention depends on them."""


class DecoderMaps(NamedTuple):
    """The linear maps of one step, made once before a loop."""

    layers: list[LayerMaps]
    readout: LinearMap | None


class _Step(NamedTuple):
    output_BD: Tensor
    """s_t, with input feeding ã_t."""
    context_BD: Tensor | None
    weights_BS: Tensor | None
    state: DecoderState


def make_attention(settings: AttentionSettings, *, queries: int, states: int) -> Attention | None:
    """An attention with queries and attended states of these widths; None if the settings have none."""
    if settings.score == "none":
        return None
    keys = values = None
    if settings.project:
        keys, values = nn.Linear(states, queries, bias=False), nn.Linear(states, queries, bias=False)
    score = make_score(
        settings.score,
        queries=queries,
        keys=queries if settings.project else states,
        size=settings.size or queries,
        temperature=settings.temperature,
    )
    window: Window | None = None
    if settings.window != "none":
        window = resolve(WINDOWS, settings.window)(query_width=queries, size=settings.window_size)
    features = None
    if settings.coverage != "none" or settings.location:
        from weft.attention.alignment_history import HistoryFeatures

        features = HistoryFeatures(
            size=settings.size or queries,
            states=states,
            coverage=settings.coverage,
            filters=settings.location_filters if settings.location else 0,
            width=settings.location_width,
        )
    return Attention(score, AttentionParts(make_normalizer(settings.normalizer), keys, values, window, features))


def _source_attention(settings: ModelSettings) -> Attention | None:
    """The attention of a decoder to the source; to several columns, a `SeparateAttention`, with the same methods."""

    def make() -> Attention | None:
        widths = {"queries": settings.decoder.hidden, "states": settings.encoder.hidden}
        return make_attention(settings.attention, **widths)

    columns = settings.sources.separate_attentions
    if columns == 1 or settings.attention.score == "none":
        return make()
    from weft.attention.source_attention import SeparateAttention

    separate = SeparateAttention([attention for _ in range(columns) if (attention := make()) is not None])
    return cast(Attention, separate)


class RecurrentDecoder(nn.Module):
    """A stack of cells, an optional attention, and a readout ã_t = tanh(W [c_t; s_t; …])."""

    max_positions: int | None = None
    """The longest target: unlimited."""
    has_sentence_steps: ClassVar[bool] = False
    """See `TransformerDecoder`."""

    def __init__(self, settings: ModelSettings, *, size: int) -> None:
        """``size``: width of the states for the output layer."""
        super().__init__()
        encoder, decoder = settings.encoder, settings.decoder
        assert isinstance(decoder, RecurrentDecoderSettings)
        attention = _source_attention(settings)
        context = 0
        if attention is not None:
            context = decoder.hidden if settings.attention.project else encoder.hidden
            context *= settings.sources.separate_attentions
        summary = encoder.hidden * settings.sources.final_states if decoder.feed_summary else 0
        self.attends_before = attention is not None and settings.attention.placement == "before"
        self.attends_after = attention is not None and settings.attention.placement == "after"
        self.input_feeding = decoder.input_feeding
        self.feeds_summary = decoder.feed_summary
        self.embedding_size = settings.embedding
        self.size = size
        self.dropout = settings.dropout
        fed = (context if self.attends_before else 0) + (size if decoder.input_feeding else 0) + summary
        self.stack = RecurrentStack(decoder, inputs=settings.embedding + fed, dropout=settings.dropout)
        self.bridge = make_bridge(settings)
        self.attention = attention
        # The inputs of the readout are those of the papers: Luong [c; s], Bahdanau and Cho [c; s; y].
        self.readout_has_embedding = self.feeds_summary or self.attends_before
        read = context + summary + decoder.hidden + (settings.embedding if self.readout_has_embedding else 0)
        self.readout = None if read == decoder.hidden == size else nn.Linear(read, size)

    def build_memory(self, encoded: Encoded) -> Memory:
        """What every step needs of the source."""
        keys = None if self.attention is None else self.attention.project(encoded.states, encoded.columns_N)
        final = encoded.last()
        return Memory(keys, final[-1][0] if self.feeds_summary else None, self.bridge(final))

    def start(self, memory: Memory) -> DecoderState:
        top_BD = memory.initial[0][0]
        attentional_BD = top_BD.new_zeros(top_BD.shape[0], self.size) if self.input_feeding else None
        history = None
        if self.attention is not None and memory.keys is not None:
            history = self.attention.start(memory.keys)
        return DecoderState(memory.initial, attentional_BD, history)

    # One step

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """One step for R rows; the rows of one source are adjacent, so R is a multiple of the rows of the memory."""
        maps = self._step_maps()
        step = self._advance(embedded_RE, self._input_gates(embedded_RE), state, memory, maps)
        output_RD = step.output_BD
        if not self.input_feeding:
            summary_RD = _repeat_rows(memory.summary_BD, embedded_RE.shape[0])
            output_RD = self._readout(maps.readout, output_RD, step.context_BD, summary_RD, embedded_RE)
        return output_RD, step.state, step.weights_BS

    def _advance(
        self, embedded_BE: Tensor, input_BG: Tensor, state: DecoderState, memory: Memory, maps: DecoderMaps
    ) -> _Step:
        """s_{t−1}, y_{t−1} -> s_t, by the equations above; ``input_BG``: W y_{t−1} + b of the first layer."""
        context_BD = weights_BS = None
        summary_BD = _repeat_rows(memory.summary_BD, embedded_BE.shape[0])
        if self.attends_before:
            context_BD, weights_BS = self._attend(state.layers[-1][0], memory, state.history)
        extras = [extra for extra in (context_BD, state.attentional_BD, summary_BD) if extra is not None]
        extra_BD = torch.cat(extras, -1) if len(extras) > 1 else extras[0] if extras else None
        inputs_BD = None if self.stack.connections == "plain" else torch.cat([embedded_BE, *extras], -1)
        output_BD, layers = self.stack.step(inputs_BD, input_BG, state.layers, maps.layers, extra_BD)
        if self.attends_after:
            context_BD, weights_BS = self._attend(output_BD, memory, state.history)
        attentional_BD = None
        if self.input_feeding:
            attentional_BD = output_BD = self._readout(maps.readout, output_BD, context_BD, summary_BD, embedded_BE)
        history = state.history
        if history is not None and weights_BS is not None:
            history = history.advance(weights_BS)
        return _Step(output_BD, context_BD, weights_BS, DecoderState(layers, attentional_BD, history))

    def _step_maps(self) -> DecoderMaps:
        readout = None if self.readout is None else deferred_linear(self.readout.weight, self.readout.bias)
        return DecoderMaps(self.stack.step_maps(self.embedding_size), readout)

    def _input_gates(self, embedded_NE: Tensor) -> Tensor:
        """W y + b of the first layer, which does not depend on the recurrence."""
        first_layer = self.stack.weights(0)
        return functional.linear(embedded_NE, first_layer.input_GD[:, : self.embedding_size], first_layer.input_bias_G)

    def _attend(self, queries_RD: Tensor, memory: Memory, history: AlignmentHistory | None) -> tuple[Tensor, Tensor]:
        """The contexts (R, D) and the weights (R, S)."""
        assert self.attention is not None and memory.keys is not None
        sources = memory.keys.mask_BS.shape[0]
        queries_BTD = queries_RD.view(sources, -1, queries_RD.shape[-1])
        context_BTD, weights_BTS = self.attention(queries_BTD, memory.keys, history)
        return context_BTD.flatten(0, 1), weights_BTS.flatten(0, 1)

    def _readout(
        self,
        readout: LinearMap | None,
        output_ND: Tensor,
        context_ND: Tensor | None,
        summary_ND: Tensor | None,
        embedded_NE: Tensor,
    ) -> Tensor:
        """ã_t = tanh(W [c_t; c; s_t; y_{t−1}]), of the parts that this decoder has."""
        if readout is None:
            return dropout(output_ND, self.dropout, self.training)
        parts = (context_ND, summary_ND, output_ND, embedded_NE if self.readout_has_embedding else None)
        read_ND = torch.tanh(readout(torch.cat([part for part in parts if part is not None], -1)))
        return dropout(read_ND, self.dropout, self.training)

    # Whole targets

    def forward(self, embedded: Ragged, encoded: Encoded, *, return_attention: ReturnAttention = False) -> HiddenStates:
        """Teacher forcing. The attention is recorded as one layer with one head."""
        memory = self.build_memory(encoded)
        forward = self._fast_forward(embedded, bool(return_attention)) or self._forward_steps
        states_ND, weights_BTS = forward(embedded, memory, bool(return_attention))
        attention = () if weights_BTS is None else (AttentionRecord("cross", 0, weights_BTS[:, None]),)
        return HiddenStates(embedded.like(states_ND), attention)

    def _forward_steps(self, embedded: Ragged, memory: Memory, return_attention: bool) -> tuple[Tensor, Tensor | None]:
        """One step after the other, for the rows that have not ended."""
        order = embedded.layout.time_major
        maps = self._step_maps()
        summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
        memory = map_tree(order.sort_rows, memory)
        if memory.keys is not None:
            memory = memory._replace(keys=memory.keys.deferred())
        embedded_NE = order.sort(embedded.values)
        input_gates = order.map(self._input_gates, embedded_NE).split(order.batch_sizes)
        state = self.start(memory)
        steps: list[_Step] = []
        running = embedded.rows
        for embedded_BE, input_BG in zip(embedded_NE.split(order.batch_sizes), input_gates, strict=True):
            if len(embedded_BE) < running:
                running = len(embedded_BE)
                state, memory = first((state, memory), running)
            steps.append(self._advance(embedded_BE, input_BG, state, memory, maps))
            state = steps[-1].state
        states_ND = order.unsort(torch.cat([step.output_BD for step in steps]))
        if not self.input_feeding:
            context_ND = order.unsort(torch.cat([step.context_BD for step in steps if step.context_BD is not None]))
            states_ND = self._readout(self.readout, states_ND, context_ND, summary_ND, embedded.values)
        weights_BTS = None
        if return_attention:
            weights_NS = torch.cat([step.weights_BS for step in steps if step.weights_BS is not None])
            weights_BTS = embedded.like(order.unsort(weights_NS)).to_padded()
        return states_ND, weights_BTS

    def _fast_forward(
        self, embedded: Ragged, return_attention: bool
    ) -> Callable[[Ragged, Memory, bool], tuple[Tensor, Tensor | None]] | None:
        """A faster way than `_forward_steps` with the same results, if there is one."""
        stepwise = self.attention is not None and self.attention.is_stepwise
        if not (self.attends_before or self.input_feeding or stepwise):
            return self._forward_layers
        differentiable_weights = return_attention and torch.is_grad_enabled()
        if embedded.values.is_cuda and not differentiable_weights:
            from weft.models.padded_input_feeding import padded_input_feeding

            return padded_input_feeding(self, embedded)
        if embedded.values.is_cuda or differentiable_weights or not self._is_input_feeding_lstm:
            return None
        return self._forward_input_feeding

    def _forward_layers(self, embedded: Ragged, memory: Memory, return_attention: bool) -> tuple[Tensor, Tensor | None]:
        """Nothing of the attention enters the recurrence: the stack over whole targets, then one attention."""
        summary_ND = None if memory.summary_BD is None else memory.summary_BD[embedded.layout.row_ids]
        inputs = embedded if summary_ND is None else embedded.like(torch.cat([embedded.values, summary_ND], -1))
        outputs, _ = self.stack(inputs, memory.initial)
        context_ND = weights_BTS = None
        if self.attention is not None and memory.keys is not None:
            context, weights_BTS = self.attention.attend_ragged(outputs, memory.keys)
            context_ND = context.values
        states_ND = self._readout(self.readout, outputs.values, context_ND, summary_ND, embedded.values)
        return states_ND, weights_BTS if return_attention else None

    @property
    def _is_input_feeding_lstm(self) -> bool:
        """Whether `weft.kernels.cpu.input_feeding` applies: one LSTM layer and softmax of a dot product."""
        return (
            self.input_feeding
            and isinstance(self.attention, Attention)
            and self.attention.normalize is softmax
            and self.attention.window is None
            and type(self.attention.score).forward in (Dot.forward, General.forward)
            and self.stack.is_single_lstm
            and not self.feeds_summary
        )

    def _forward_input_feeding(
        self, embedded: Ragged, memory: Memory, return_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """By the kernel for input feeding, with its own backward pass."""
        from weft.kernels.cpu.input_feeding import FeedingWeights, feed_inputs

        assert memory.keys is not None and self.readout is not None
        order, layer = embedded.layout.time_major, self.stack.weights(0)
        bias_G = layer.input_bias_G + layer.state_bias_G
        embedded_NE = order.sort(embedded.values)
        dropout_NO = None
        if self.training and self.dropout:
            dropout_NO = dropout_mask((len(embedded_NE), self.size), self.dropout, embedded_NE.dtype)
        [(state_BD, cell_BD)], keys = map_tree(order.sort_rows, (memory.initial, memory.keys))
        size = self.embedding_size
        output = feed_inputs(
            functional.linear(embedded_NE, layer.input_GD[:, :size], bias_G),
            FeedingWeights(layer.input_GD[:, size:], layer.state_GD, self.readout.weight, self.readout.bias),
            state_BD=state_BD,
            cell_BD=cell_BD,
            keys_BSD=as_tensor(keys.keys_BSD),
            values_BSC=as_tensor(keys.values_BSD),
            mask_BS=keys.mask_BS,
            dropout_NO=dropout_NO,
            batch_sizes=order.batch_sizes,
        )
        weights_BTS = embedded.like(order.unsort(output.weights_NS)).to_padded() if return_attention else None
        return order.unsort(output.states_NO), weights_BTS


def _repeat_rows(summary_BD: Tensor | None, rows: int) -> Tensor | None:
    """One summary for every row of a search, in which the rows of one source are adjacent."""
    if summary_BD is None or summary_BD.shape[0] == rows:
        return summary_BD
    return summary_BD.repeat_interleave(rows // summary_BD.shape[0], 0)
