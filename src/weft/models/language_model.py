"""The recurrent language model p(y) = Π p(y_t | y_<t): a model whose memory is empty."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.kv_cache import LENGTH_MULTIPLE
from weft.attention.records import AttentionRecord, ReturnAttention
from weft.models.interface import HiddenStates, ModelOutput, StepOutput
from weft.models.layers import Embedding, Output, dropout
from weft.models.prompted_lm import prepend_prompts
from weft.models.recurrent import RecurrentStack, StackState
from weft.models.recurrent_decoder import make_attention
from weft.ragged import Ragged, additive_mask
from weft.recipe import ModelSettings, RecurrentSettings


class LanguageModelState(NamedTuple):
    """The state of a hypothesis."""

    layers: StackState
    history_RTD: Tensor | None
    """h_0 … h_{t−1}, for a model that attends over its previous states."""

    def with_capacity(self, tokens: int, *, return_attention: bool) -> LanguageModelState | CachedHistoryState:
        if self.history_RTD is None:
            return self  # its shapes never change
        length = self.history_RTD.shape[1]
        capacity = -(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE + tokens
        history_RTD = functional.pad(self.history_RTD, (0, 0, 0, capacity - length))
        length_1 = torch.full((1,), length, device=history_RTD.device)
        return CachedHistoryState(HistoryCache(history_RTD, length_1), self.layers)


class HistoryCache(NamedTuple):
    """h_0 … h_{t−1} of every hypothesis, with storage for more; written in place."""

    history_RTD: Tensor
    length_1: Tensor
    """How many there are: t."""

    def select_rows(self, rows: Tensor) -> HistoryCache:
        return self._replace(history_RTD=self.history_RTD.index_select(0, rows))

    def keep_rows(self, rows: Tensor) -> HistoryCache:
        return self.select_rows(rows)

    def with_capacity(self, tokens: int, *, return_attention: bool) -> HistoryCache:
        return self._replace(history_RTD=functional.pad(self.history_RTD, (0, 0, 0, tokens)))

    @property
    def mask_RT(self) -> Tensor:
        """Additive: 0 at a state, −∞ at storage for those to come."""
        empty_T = torch.arange(self.history_RTD.shape[1], device=self.history_RTD.device) >= self.length_1
        return additive_mask(empty_T, self.history_RTD.dtype).expand(self.history_RTD.shape[:2])

    def append(self, states_RD: Tensor) -> HistoryCache:
        """With the next state of every hypothesis."""
        self.history_RTD.index_copy_(1, self.length_1, states_RD[:, None])
        return self._replace(length_1=self.length_1 + 1)


class CachedHistoryState(NamedTuple):
    """The state of a hypothesis whose previous states are in storage of a fixed size."""

    cache: HistoryCache
    layers: StackState


class LanguageModelMemory(NamedTuple):
    """The initial state; there is no source."""

    initial: StackState


class RecurrentLanguageModel(nn.Module):
    """A recurrent language model, optionally with attention over its previous states.

    without:  p(y_{t+1}) from s_t
    with:     c_t = Σ α_j h_j over h_0 = 0, h_1 … h_{t−1};  p(y_{t+1}) from tanh(W [c_t; s_t])
    """

    def __init__(self, settings: ModelSettings, *, vocabulary: int, output_class: type[Output] = Output) -> None:
        """``vocabulary``: its size."""
        super().__init__()
        decoder = settings.decoder
        assert isinstance(decoder, RecurrentSettings)
        self.dropout = settings.dropout
        self.embedding = Embedding(vocabulary, settings.embedding, settings.dropout)
        self.stack = RecurrentStack(decoder, inputs=settings.embedding, dropout=settings.dropout)
        self.attention = make_attention(settings.attention, queries=decoder.hidden, states=decoder.hidden)
        tied = settings.ties_output
        size = settings.embedding if tied else decoder.hidden
        output = output_class(vocabulary, size, self.embedding if tied else None)
        read = decoder.hidden * (1 if self.attention is None else 2)
        self.readout = None if read == decoder.hidden == size else nn.Linear(read, size)
        self.output = output

    def encode(self, source: Ragged) -> LanguageModelMemory:
        return LanguageModelMemory(self.stack.zeros(source.rows, self.embedding.weight_VE))

    def start(self, memory: LanguageModelMemory) -> LanguageModelState:
        top_RD = memory.initial[-1][0]
        history_RTD = None if self.attention is None else torch.zeros_like(top_RD)[:, None]
        return LanguageModelState(memory.initial, history_RTD)

    def read_prompts(self, tokens: Ragged, memory: LanguageModelMemory) -> LanguageModelState:
        """See `ReadsPrompts`."""
        outputs, layers = self.stack(self.embedding.ragged(tokens), memory.initial)
        history_RTD = self.start(memory).history_RTD
        if history_RTD is not None:
            history_RTD = torch.cat([history_RTD, outputs.to_padded()], 1)
        return LanguageModelState(layers, history_RTD)

    def step(
        self, tokens_R: Tensor, state: LanguageModelState | CachedHistoryState, memory: LanguageModelMemory
    ) -> StepOutput:
        embedded_RE = self.embedding(tokens_R)
        maps = self.stack.step_maps()
        output_RD, layers = self.stack.step(embedded_RE, maps[0].input_map(embedded_RE), state.layers, maps)
        after: LanguageModelState | CachedHistoryState = LanguageModelState(layers, None)
        context_RD = weights_RT = None
        if self.attention is not None:
            if isinstance(state, CachedHistoryState):
                keys = self.attention.project_masked(state.cache.history_RTD, state.cache.mask_RT)
                after = CachedHistoryState(state.cache.append(output_RD), layers)
            else:
                assert state.history_RTD is not None
                keys = self.attention.project_padded(state.history_RTD)
                after = LanguageModelState(layers, torch.cat([state.history_RTD, output_RD[:, None]], 1))
            context_R1D, weights_R1T = self.attention(output_RD[:, None], keys)
            context_RD, weights_RT = context_R1D[:, 0], weights_R1T[:, 0]
        return StepOutput(self.output(self._readout(output_RD, context_RD)), after, weights_RT)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)

    def output_layer(self) -> Output:
        return self.output

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """What `forward` computes before the output layer. A source is a prompt, which is read first."""
        if source.layout.total:
            texts, indices_N = prepend_prompts(source, inputs)
            states_ND = self.hidden_states(source.empty(), texts).states.values
            return HiddenStates(inputs.like(states_ND.index_select(0, indices_N)))
        outputs, _ = self.stack(self.embedding.ragged(inputs), self.encode(source).initial)
        context_ND = None
        attention: tuple[AttentionRecord, ...] = ()
        if self.attention is not None:
            context, weights_BTS = self.attention.attend_to_history(outputs)
            context_ND = context.values
            if return_attention:
                attention = (AttentionRecord("history", 0, weights_BTS[:, None]),)
        return HiddenStates(outputs.like(self._readout(outputs.values, context_ND)), attention)

    def _readout(self, output_ND: Tensor, context_ND: Tensor | None) -> Tensor:
        if self.readout is not None:
            read_ND = output_ND if context_ND is None else torch.cat([context_ND, output_ND], -1)
            output_ND = torch.tanh(self.readout(read_ND))
        return dropout(output_ND, self.dropout, self.training)
