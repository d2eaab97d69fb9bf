"""The recurrent language model p(y) = Π p(y_t | y_<t): a model whose memory is empty."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.edits import AttentionRole
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.architecture import Architecture, AttentionShape
from weft.models.interface import HiddenStates, ModelOutput, StepOutput
from weft.models.layers import Embedding, Output, dropout
from weft.models.prompted_lm import prepend_prompts
from weft.models.recurrent import RecurrentStack, StackState
from weft.models.recurrent_decoder import make_attention
from weft.ragged import Ragged
from weft.recipe import ModelSettings, RecurrentSettings
from weft.runtime.replaceable import replaceable


class LanguageModelState(NamedTuple):
    """The state of a hypothesis."""

    layers: StackState
    history_RTD: Tensor | None
    """h_0 … h_{t−1}, for a model that attends over its previous states."""


class LanguageModelMemory(NamedTuple):
    """The initial state; there is no source."""

    initial: StackState


class RecurrentLanguageModel(nn.Module):
    """A recurrent language model, optionally with attention over its previous states.

    without:  p(y_{t+1}) from s_t
    with:     c_t = Σ α_j h_j over h_0 = 0, h_1 … h_{t−1};  p(y_{t+1}) from tanh(W [c_t; s_t])
    """

    def __init__(self, settings: ModelSettings, *, vocabulary: int, output_class: type[Output] = Output) -> None:
        """``vocabulary``: the size of the vocabulary."""
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

    def architecture(self) -> Architecture:
        attentions: tuple[AttentionShape, ...] = ()
        if self.attention is not None:
            attentions = (AttentionShape("attention", AttentionRole("decoder", 0, multihead=False)),)
        return Architecture(
            "language_model",
            decoder=self.stack.shape("stack"),
            target_embedding=self.embedding.shape("embedding"),
            attentions=attentions,
            subclassed=type(self) is not RecurrentLanguageModel,
        )

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

    @replaceable
    def step(self, tokens_R: Tensor, state: LanguageModelState, memory: LanguageModelMemory) -> StepOutput:
        """s_t = f(s_{t−1}, y_t); with attention c_t over h_0 … h_{t−1} too."""
        output_RD, layers = self.stack.step(self.embedding(tokens_R), state.layers)
        history_RTD, context_RD, weights_RT = state.history_RTD, None, None
        if self.attention is not None and history_RTD is not None:
            context_R1D, weights_R1T = self.attention(output_RD[:, None], self.attention.project_padded(history_RTD))
            context_RD, weights_RT = context_R1D[:, 0], weights_R1T[:, 0]
            history_RTD = torch.cat([history_RTD, output_RD[:, None]], 1)
        logits_RV = self.output(self.readout_states(output_RD, context_RD))
        return StepOutput(logits_RV, LanguageModelState(layers, history_RTD), weights_RT)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)

    def output_layer(self) -> Output:
        return self.output

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """The states that `forward` passes to the output layer. A source is a prompt, which is read first."""
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
        return HiddenStates(outputs.like(self.readout_states(outputs.values, context_ND)), attention)

    def readout_states(self, output_ND: Tensor, context_ND: Tensor | None) -> Tensor:
        if self.readout is not None:
            read_ND = output_ND if context_ND is None else torch.cat([context_ND, output_ND], -1)
            output_ND = torch.tanh(self.readout(read_ND))
        return dropout(output_ND, self.dropout, self.training)
