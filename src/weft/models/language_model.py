"""The language model p(y) = Π p(y_t | y_<t): a model whose memory is empty."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention import Attention, AttentionRecord
from weft.models.interface import HiddenStates, ModelOutput, StepOutput
from weft.models.layers import Embedding, Output, dropout
from weft.models.prompted_lm import behind
from weft.models.recurrent import RecurrentStack, StackState
from weft.ragged import Ragged


class LanguageState(NamedTuple):
    """What was said so far."""

    layers: StackState
    past_RTD: Tensor | None
    """h_0 … h_{t−1}, for a model that attends over its own past."""


class LanguageMemory(NamedTuple):
    """Nothing but the first state: there is no source."""

    initial: StackState


class RecurrentLanguageModel(nn.Module):
    """A recurrent language model; with an attention it looks back over its own past states.

    plain:   p(y_{t+1}) from s_t
    looking: c_t = Σ α_j h_j over h_0 = 0, h_1 … h_{t−1};  p(y_{t+1}) from tanh(W [c_t; s_t])
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        stack: RecurrentStack,
        size: int,
        output: Output,
        attention: Attention | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.attention = attention
        read = stack.hidden * (1 if attention is None else 2)
        self.readout = None if read == stack.hidden == size else nn.Linear(read, size)
        self.output = output
        self.dropout = dropout

    def encode(self, source: Ragged) -> LanguageMemory:
        return LanguageMemory(self.stack.zeros(source.rows, self.embedding.weight_VE))

    def start(self, memory: LanguageMemory) -> LanguageState:
        top_RD = memory.initial[-1][0]
        return LanguageState(memory.initial, None if self.attention is None else torch.zeros_like(top_RD)[:, None])

    def step(self, tokens_R: Tensor, state: LanguageState, memory: LanguageMemory) -> StepOutput:
        embedded_RE = self.embedding(tokens_R)
        maps = self.stack.step_maps()
        output_RD, layers = self.stack.step(embedded_RE, maps[0].of_input(embedded_RE), state.layers, maps)
        context_RD = weights_RT = past_RTD = None
        if self.attention is not None and state.past_RTD is not None:
            keys = self.attention.project_padded(state.past_RTD)
            answers_R1D, weights_R1T = self.attention(output_RD[:, None], keys)
            context_RD, weights_RT = answers_R1D[:, 0], weights_R1T[:, 0]
            past_RTD = torch.cat([state.past_RTD, output_RD[:, None]], 1)
        logits_RV = self.output(self._read(output_RD, context_RD))
        return StepOutput(logits_RV, LanguageState(layers, past_RTD), weights_RT)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)

    def hidden_states(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> HiddenStates:
        """What `forward` computes before the output layer. A source is a prompt, which is read first."""
        if source.layout.total:
            whole, places_N = behind(source, inputs)
            return HiddenStates(inputs.like(self.hidden_states(source.empty(), whole).states.values[places_N]))
        outputs, _ = self.stack(self.embedding.ragged(inputs), self.encode(source).initial)
        context_ND = None
        attention: tuple[AttentionRecord, ...] = ()
        if self.attention is not None:
            context, weights_BTS = self.attention.attend_to_history(outputs)
            context_ND = context.values
            if return_attention:
                attention = (AttentionRecord("history", 0, weights_BTS[:, None]),)
        return HiddenStates(outputs.like(self._read(outputs.values, context_ND)), attention)

    def _read(self, output_ND: Tensor, context_ND: Tensor | None) -> Tensor:
        if self.readout is not None:
            seen_ND = output_ND if context_ND is None else torch.cat([context_ND, output_ND], -1)
            output_ND = torch.tanh(self.readout(seen_ND))
        return dropout(output_ND, self.dropout, self.training)
