"""One stack for both sides: the prefix language model, and with no source the Transformer language model.

    p(y|x) = Π p(y_t | x, y_<t)   by a single stack over [x; y]: x sees itself both ways, y looks back over x and y

Dong et al. 2019 (UniLM); Raffel et al. 2020, 3.2.1. With an empty x it is p(y) = Π p(y_t | y_<t).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention import (
    AttentionPattern,
    AttentionRecord,
    KeysValues,
    PrefixAttention,
    RaggedAttention,
    StepKeysValues,
    recorder_for,
)
from weft.models.interface import HiddenStates, ModelOutput, StepOutput, alignment_layer, renormalize
from weft.models.layers import Embedding, Output
from weft.models.prompted_lm import behind
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged


class PrefixMemory(NamedTuple):
    """What the source says: every layer's keys and values of it. First axis of every tensor: the source row."""

    layers: tuple[KeysValues, ...]
    bias_B11S: Tensor
    """0 where there is a token, −∞ where a row has ended."""
    lengths_B: Tensor
    """Of the sources: a target's first place."""


class PrefixState(NamedTuple):
    """What a hypothesis has said so far: every layer's keys and values (R, H, T, D) of it."""

    layers: tuple[KeysValues, ...]


class PrefixLM(nn.Module):
    """A Transformer stack that reads the source and goes on with the target."""

    def __init__(
        self,
        *,
        source_embedding: Embedding | None,
        target_embedding: Embedding,
        stack: TransformerStack,
        output: Output,
    ) -> None:
        """``source_embedding``: None for a language model, whose sources are empty."""
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.stack = stack
        self.readout = nn.Identity() if output.width == stack.size else nn.Linear(stack.size, output.width)
        self.output = output
        self.alignment_layer = alignment_layer(len(stack.layers))

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target after a source of this length; None: unlimited."""
        return None if self.stack.max_length is None else self.stack.max_length - source_length

    def encode(self, source: Ragged) -> PrefixMemory:
        layout = source.layout
        weight = self.output.weight_VD
        blocked_BS = torch.arange(layout.longest, device=weight.device) >= layout.device_lengths[:, None]
        bias_BS = weight.new_zeros(blocked_BS.shape).masked_fill(blocked_BS, float("-inf"))
        layers = self.stack.empty_past(source.rows, weight)
        if self.source_embedding is not None and layout.total:
            stream_ND = self.stack.begin(self.source_embedding(source.values), layout.positions, layout.longest)
            sight = RaggedAttention("encoder", layout, layout, bias=self.stack.own_bias(layout.longest, stream_ND))
            rotation = self.stack.rotation(layout.positions, stream_ND.dtype)
            found: list[KeysValues] = []
            for layer in self.stack.layers:
                own = layer.own.own_keys_values(layer.around_own.before(stream_ND), rotation)
                found.append(KeysValues(*(source.like(part).to_padded().transpose(1, 2) for part in own)))
                stream_ND = layer(stream_ND, sight, rotation)
            layers = tuple(found)
        return PrefixMemory(layers, bias_BS[:, None, None], layout.device_lengths)

    def start(self, memory: PrefixMemory) -> PrefixState:
        return PrefixState(self.stack.empty_past(len(memory.lengths_B), memory.bias_B11S))

    def step(self, tokens_R: Tensor, state: PrefixState, memory: PrefixMemory) -> StepOutput:
        stack, time = self.stack, state.layers[0].keys.shape[2]
        sources, length = len(memory.lengths_B), memory.bias_B11S.shape[-1]
        places_B = memory.lengths_B + time
        places_R = places_B.repeat_interleave(len(tokens_R) // sources)
        longest = time + 1 + (int(memory.lengths_B.max()) if stack.max_length else length)  # a limit is worth a wait
        stream_RD = stack.begin(self.target_embedding(tokens_R), places_R, longest)
        rotation = stack.rotation(places_R, stream_RD.dtype)
        past = torch.arange(time + 1, device=tokens_R.device)
        bias = stack.bias(past[-1:], past)
        far = stack.bias(places_B[:, None], torch.arange(length, device=tokens_R.device)[None])
        prefix_bias = memory.bias_B11S if far is None else memory.bias_B11S + far
        layers: list[KeysValues] = []
        looked_RS = None
        for number, (layer, own, items) in enumerate(zip(stack.layers, state.layers, memory.layers, strict=True)):
            prefix = StepKeysValues(items.keys, items.values, prefix_bias) if length else None
            stream_RD, longer, weights_RHS = layer.step(
                stream_RD, own, rotation, None if bias is None else bias[None], prefix
            )
            layers.append(longer)
            if number == self.alignment_layer and length:
                looked_RS = renormalize(weights_RHS.mean(1)[:, :length])
        states_RD = self.readout(stack.end(stream_RD))
        return StepOutput(self.output(states_RD), PrefixState(tuple(layers)), looked_RS)

    def hidden_states(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> HiddenStates:
        """What `forward` computes before the output layer. To a language model a source is a prompt, read first."""
        if self.source_embedding is None and source.layout.total:
            whole, places_N = behind(source, inputs)
            return HiddenStates(inputs.like(self.hidden_states(source.empty(), whole).states.values[places_N]))
        stack, layout = self.stack, inputs.layout
        longest = int((source.lengths + inputs.lengths).max()) if inputs.rows else 0
        places_N = layout.positions + source.layout.device_lengths[layout.row_ids]
        stream_ND = stack.begin(self.target_embedding(inputs.values), places_N, longest)
        if self.source_embedding is not None and source.layout.total:
            own_ND = stack.begin(self.source_embedding(source.values), source.layout.positions, source.layout.longest)
            stream_ND = torch.cat([own_ND, stream_ND])
            places_N = torch.cat([source.layout.positions, places_N])
        sight: AttentionPattern
        if source.layout.total:
            sight = PrefixAttention(
                source.layout,
                layout,
                source_bias=stack.own_bias(source.layout.longest, stream_ND),
                target_bias=self._target_bias(source, inputs, longest),
            )
        else:
            own_bias = stack.own_bias(layout.longest, stream_ND)
            sight = RaggedAttention("decoder", layout, layout, causal=True, bias=own_bias)
        rotation = stack.rotation(places_N, stream_ND.dtype)
        records: list[AttentionRecord] | None = [] if return_attention else None
        for number, layer in enumerate(stack.layers):
            stream_ND = layer(stream_ND, sight, rotation, watch=recorder_for(records, number))
        states_ND = self.readout(stack.end(stream_ND[source.layout.total :]))
        return HiddenStates(inputs.like(states_ND), tuple(records or ()))

    def _target_bias(self, source: Ragged, inputs: Ragged, longest: int) -> Tensor | None:
        """What distances add for every target token over its source and target: (B, H, T, S)."""
        own_T = torch.arange(inputs.layout.longest, device=inputs.device)
        both_S = torch.arange(longest, device=inputs.device)
        return self.stack.bias(source.layout.device_lengths[:, None] + own_T, both_S[None])

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)
