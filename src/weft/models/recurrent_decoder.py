"""Recurrent decoders: cell × attention × where the context vector enters.

    none      s_t = f(s_{t−1}, y_{t−1})                     s_0 from the encoder's final state (Sutskever et al. 2014)
              s_t = f(s_{t−1}, y_{t−1}, c)                  c, the final state, at every step (Cho et al. 2014)
    after     s_t = f(s_{t−1}, y_{t−1}), c_t from s_t       ã_t = tanh(W [c_t; s_t])  (Luong et al. 2015, eq. 5)
              s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])          with input feeding (Luong et al. 2015, 3.3)
    before    c_t from s_{t−1}, s_t = f(s_{t−1}, y_{t−1}, c_t)   (Bahdanau et al. 2015, eq. 4)

`RecurrentDecoder.step` is one step of these equations, `forward` the loop over them. A bridge makes the decoder's first
state of the encoder's last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.attention.attention import Attention, AttentionParts, ProjectedKeys
from weft.attention.edits import AttentionRole
from weft.attention.normalizers import make_normalizer
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.attention.scores import make_score
from weft.errors import RecipeError
from weft.models.architecture import AttentionShape, PartArchitecture
from weft.models.interface import Encoded, HiddenStates
from weft.models.layers import dropout
from weft.models.recurrent import Cell, RecurrentStack, StackState, final_state
from weft.ragged import Ragged
from weft.recipe import AttentionSettings, ModelSettings, RecurrentDecoderSettings, RecurrentSettings
from weft.recipe.choices import CELLS, WINDOWS, resolve
from weft.runtime.replaceable import replaceable
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


class RecurrentDecoder(nn.Module):
    """A stack of cells, an optional attention, and a readout ã_t = tanh(W [c_t; s_t; …])."""

    max_positions: int | None = None
    """The longest target: unlimited."""

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
        self.readout = self._make_readout(read, size)

    def _make_readout(self, inputs: int, size: int) -> nn.Linear | None:
        """W of ã_t = tanh(W […]); None where s_t itself, alone and of the right width, is read."""
        return None if inputs == self.stack.hidden == size else nn.Linear(inputs, size)

    def part_architecture(self, module: str) -> PartArchitecture:
        separate = getattr(self.attention, "attentions", None)  # to the columns of a source
        names = [] if self.attention is None else [f"{module}.attention"]
        if separate is not None:
            names = [f"{module}.attention.attentions.{number}" for number in range(len(separate))]
        role = AttentionRole("cross", 0, multihead=False)
        return PartArchitecture(
            (self.stack.shape(f"{module}.stack"),), tuple(AttentionShape(name, role) for name in names)
        )

    def build_memory(self, encoded: Encoded) -> Memory:
        """The source as every step reads it."""
        keys = None if self.attention is None else self.attention.project(encoded.states, encoded.columns_N)
        final = final_state(encoded)
        return Memory(keys, final[-1][0] if self.feeds_summary else None, self.bridge(final))

    def start(self, memory: Memory) -> DecoderState:
        top_BD = memory.initial[0][0]
        attentional_BD = top_BD.new_zeros(top_BD.shape[0], self.size) if self.input_feeding else None
        history = None
        if self.attention is not None and memory.keys is not None:
            history = self.attention.start(memory.keys)
        return DecoderState(memory.initial, attentional_BD, history)

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """s_t = f(s_{t−1}, [y_{t−1}; c_t; ã_{t−1}; c]),  ã_t = tanh(W [c_t; c; s_t; y_{t−1}]), of the parts it has.

        Returns ã_t, the new state and α_t for R rows. The rows of one source are adjacent, so R is a multiple of the
        rows of the memory.
        """
        context_RD = weights_RS = None
        summary_RD = repeat_rows(memory.summary_BD, embedded_RE.shape[0])
        if self.attends_before:
            context_RD, weights_RS = self.attend(state.layers[-1][0], memory, state.history)
        inputs_RD = concatenate(embedded_RE, context_RD, state.attentional_BD, summary_RD)
        output_RD, layers = self.stack.step(inputs_RD, state.layers)
        if self.attends_after:
            context_RD, weights_RS = self.attend(output_RD, memory, state.history)
        output_RD = self.read(context_RD, summary_RD, output_RD, embedded_RE)
        history = state.history
        if history is not None and weights_RS is not None:
            history = history.advance(weights_RS)
        return output_RD, DecoderState(layers, output_RD if self.input_feeding else None, history), weights_RS

    def attend(self, queries_RD: Tensor, memory: Memory, history: AlignmentHistory | None) -> tuple[Tensor, Tensor]:
        """The contexts (R, D) and the weights (R, S)."""
        assert self.attention is not None and memory.keys is not None
        sources = memory.keys.mask_BS.shape[0]
        queries_BTD = queries_RD.view(sources, -1, queries_RD.shape[-1])
        context_BTD, weights_BTS = self.attention(queries_BTD, memory.keys, history)
        return context_BTD.flatten(0, 1), weights_BTS.flatten(0, 1)

    def read(
        self, context_ND: Tensor | None, summary_ND: Tensor | None, output_ND: Tensor, embedded_NE: Tensor
    ) -> Tensor:
        """ã_t = tanh(W [c_t; c; s_t; y_{t−1}]), of the parts that this decoder has; with dropout."""
        if self.readout is not None:
            embedded = embedded_NE if self.readout_has_embedding else None
            output_ND = torch.tanh(self.readout(concatenate(context_ND, summary_ND, output_ND, embedded)))
        return dropout(output_ND, self.dropout, self.training)

    def forward(self, embedded: Ragged, encoded: Encoded, *, return_attention: ReturnAttention = False) -> HiddenStates:
        """Teacher forcing. The attention is recorded as one layer with one head."""
        states_ND, weights_BTS = self.run(embedded, self.build_memory(encoded), bool(return_attention))
        attention = () if weights_BTS is None else (AttentionRecord("cross", 0, weights_BTS[:, None]),)
        return HiddenStates(embedded.like(states_ND), attention)

    @replaceable
    def run(self, embedded: Ragged, memory: Memory, return_attention: bool) -> tuple[Tensor, Tensor | None]:
        """ã_t of every target token, and α_t (B, T, S) on request: one step after the other for the rows that have a
        token at time t."""
        order = embedded.layout.time_major
        memory = map_tree(order.sort_rows, memory)
        state = self.start(memory)
        outputs, weights = [], []
        for embedded_BE in order.sort(embedded.values).split(order.batch_sizes):
            state, memory = first((state, memory), len(embedded_BE))
            output_BD, state, weights_BS = self.step(embedded_BE, state, memory)
            outputs.append(output_BD)
            weights.append(weights_BS)
        states_ND = order.unsort(torch.cat(outputs))
        weights_BTS = None
        if return_attention and self.attention is not None:
            weights_NS = torch.cat([weights_BS for weights_BS in weights if weights_BS is not None])
            weights_BTS = embedded.like(order.unsort(weights_NS)).to_padded()
        return states_ND, weights_BTS


def concatenate(*parts: Tensor | None) -> Tensor:
    """The parts that there are, side by side."""
    return torch.cat([part for part in parts if part is not None], -1)


def repeat_rows(summary_BD: Tensor | None, rows: int) -> Tensor | None:
    """One summary for every row of a search, in which the rows of one source are adjacent."""
    if summary_BD is None or summary_BD.shape[0] == rows:
        return summary_BD
    return summary_BD.repeat_interleave(rows // summary_BD.shape[0], 0)


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


class Copy(nn.Module):
    """s_0 = h_S, layer by layer   Sutskever et al. 2014."""

    def forward(self, final: StackState) -> StackState:
        return final


class Project(nn.Module):
    """s_0 = tanh(W h_S + b) of the top layer, for every tensor of every layer's state   Bahdanau et al. 2015, A.2.2."""

    def __init__(self, encoder_hidden: int, decoder: RecurrentSettings) -> None:
        super().__init__()
        self.state_parts = _cell(decoder).state_parts
        count = decoder.layers * self.state_parts
        self.maps = nn.ModuleList(nn.Linear(encoder_hidden, decoder.hidden) for _ in range(count))

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        states: list[Tensor] = [torch.tanh(linear(top_BD)) for linear in self.maps]
        return tuple(tuple(states[i : i + self.state_parts]) for i in range(0, len(states), self.state_parts))


class Zero(nn.Module):
    """s_0 = 0: the decoder reads the source through attention alone."""

    def __init__(self, decoder: RecurrentSettings) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        zero_BD = top_BD.new_zeros(top_BD.shape[0], self.decoder.hidden)
        return ((zero_BD,) * _cell(self.decoder).state_parts,) * self.decoder.layers


Bridge = Copy | Project | Zero


def make_bridge(settings: ModelSettings) -> Bridge:
    """The bridge of a model with a recurrent decoder."""
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(decoder, RecurrentSettings)
    final_states = settings.sources.final_states
    same_shape = final_states == 1 and (encoder.hidden, encoder.layers, encoder.kind) == (
        decoder.hidden,
        decoder.layers,
        decoder.kind,
    )
    if settings.bridge == "zero":
        return Zero(decoder)
    if settings.bridge == "copy" and not same_shape:
        raise RecipeError(
            "model.bridge: 'copy' needs encoder and decoder of the same kind, layers and hidden size; "
            "use 'project', or 'auto'"
        )
    if settings.bridge == "copy" or (settings.bridge == "auto" and same_shape):
        return Copy()
    return Project(encoder.hidden * final_states, decoder)


def _cell(settings: RecurrentSettings) -> type[Cell]:
    cell: type[Cell] = resolve(CELLS, settings.kind)
    return cell
