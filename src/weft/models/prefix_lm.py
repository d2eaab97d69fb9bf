"""One stack for source and target: the prefix language model and, without a source, the Transformer language model.

    p(y|x) = Π p(y_t | x, y_<t)   by one stack over [x; y]: x attends to itself both ways, y to x and its own history

Dong et al. 2019 (UniLM); Raffel et al. 2020, 3.2.1. With an empty x it is p(y) = Π p(y_t | y_<t).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.multihead import KeysValues, StepKeysValues
from weft.attention.ragged_attention import (
    AttentionPattern,
    AttentionRecords,
    PrefixAttention,
    RaggedAttention,
    ReturnAttention,
    alignment_layer,
    join_layouts,
    patterns_by_layer,
    renormalize,
)
from weft.models.architecture import Architecture
from weft.models.interface import HiddenStates, ModelOutput, StepOutput
from weft.models.layers import Embedding, Output
from weft.models.prompted_lm import prepend_prompts
from weft.models.transformer import TransformerStack
from weft.ragged import Layout, Ragged, additive_mask
from weft.runtime.replaceable import replaceable


class PrefixMemory(NamedTuple):
    """Keys and values of the source. First axis of every tensor: the source row."""

    layers: tuple[KeysValues, ...]
    """(B, H, S, D) for each layer."""
    mask_B11S: Tensor
    """Additive: 0 at a source token, −∞ at padding."""
    lengths_B: Tensor
    """Lengths of the sources: the position of a target's first token."""


class PrefixState(NamedTuple):
    """The keys and values (R, H, T, D) of the tokens of R hypotheses, for each layer."""

    layers: tuple[KeysValues, ...]


class PrefixLM(nn.Module):
    """A Transformer stack that reads the source and continues with the target."""

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
        self.readout = nn.Identity() if output.width == stack.width else nn.Linear(stack.width, output.width)
        self.output = output
        self.alignment_layer = alignment_layer(len(stack.layers))

    def architecture(self) -> Architecture:
        source, stack = self.source_embedding, self.stack.shape("stack")
        return Architecture(
            "language_model" if source is None else "prefix_lm",
            encoders=() if source is None else (stack,),
            decoder=stack,
            source_embedding=None if source is None else source.shape("source_embedding"),
            target_embedding=self.target_embedding.shape("target_embedding"),
            attentions=self.stack.self_attentions("stack", "decoder" if source is None else "prefix"),
            subclassed=type(self) is not PrefixLM,
        )

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target after a source of this length; None: unlimited."""
        return None if self.stack.max_positions is None else self.stack.max_positions - source_length

    def encode(self, source: Ragged) -> PrefixMemory:
        stack, layout, weight = self.stack, source.layout, self.output.weight_VD
        masked_BS = torch.arange(layout.longest, device=weight.device) >= layout.device_lengths[:, None]
        layers = stack.empty_history(source.rows, weight)
        if self.source_embedding is not None and layout.total:
            layers = self._keys_values(source, self.source_embedding, causal=False)
        mask_BS = additive_mask(masked_BS, weight.dtype)
        return PrefixMemory(layers, mask_BS[:, None, None], layout.device_lengths)

    def _keys_values(self, tokens: Ragged, embedding: Embedding, *, causal: bool) -> tuple[KeysValues, ...]:
        """The keys and values (B, H, T, D) of tokens in each layer; ``causal``: history, else source."""
        stack, layout = self.stack, tokens.layout
        stream_ND = stack.embed(embedding(tokens.values), layout.positions, layout.longest)
        patterns = patterns_by_layer(
            lambda bias: RaggedAttention("encoder", layout, layout, causal=causal, bias=bias),
            stack.self_attention_biases(layout.longest, stream_ND.device),
        )
        rotation = stack.rotation(layout.positions, stream_ND.dtype)
        padded: list[KeysValues] = []
        for layer, pattern in zip(stack.layers, patterns, strict=True):
            inputs_ND = layer.self_attention_residual.input(stream_ND)
            keys_values = layer.self_attention.keys_values(inputs_ND, rotation)
            padded.append(KeysValues(*(tokens.like(part).to_padded().transpose(1, 2) for part in keys_values)))
            if len(padded) < len(stack.layers):  # nothing reads the stream after the last layer
                stream_ND = layer(stream_ND, pattern, rotation)
        return tuple(padded)

    def start(self, memory: PrefixMemory) -> PrefixState:
        return PrefixState(self.stack.empty_history(len(memory.lengths_B), memory.mask_B11S))

    def read_prompts(self, tokens: Ragged, memory: PrefixMemory) -> PrefixState:
        """The state after prompts of a language model; see `ReadsPrompts`."""
        return PrefixState(self._keys_values(tokens, self.target_embedding, causal=True))

    @replaceable
    def step(self, tokens_R: Tensor, state: PrefixState, memory: PrefixMemory) -> StepOutput:
        stack, time = self.stack, state.layers[0].keys.shape[2]
        source_length = memory.mask_B11S.shape[-1]
        positions_R = (memory.lengths_B + time).repeat_interleave(len(tokens_R) // len(memory.lengths_B))
        # The exact length only where there is a limit to check: it waits for the device.
        longest = time + 1 + (int(memory.lengths_B.max()) if stack.max_positions else source_length)
        stream_RD = stack.embed(self.target_embedding(tokens_R), positions_R, longest)
        stream_RD, layers, weights = stack.step(stream_RD, positions_R, state.layers, self.step_sources(memory, time))
        attention_RS = None
        if source_length:
            attention_RS = renormalize(weights[self.alignment_layer].mean(1)[:, :source_length])
        states_RD = self.readout(stack.normalize(stream_RD))
        return StepOutput(self.output(states_RD), PrefixState(layers), attention_RS)

    def step_sources(self, memory: PrefixMemory, time: int | Tensor) -> list[StepKeysValues | None]:
        """Each layer's keys and values of the source as a step attends to them, after ``time`` target tokens."""
        length = memory.mask_B11S.shape[-1]
        if not length:
            return [None] * len(memory.layers)
        source_S = torch.arange(length, device=memory.mask_B11S.device)
        biases = self.stack.position_biases((memory.lengths_B + time)[:, None], source_S[None])
        masks = [memory.mask_B11S if bias is None else memory.mask_B11S + bias for bias in biases]
        return [StepKeysValues(*layer, mask) for layer, mask in zip(memory.layers, masks, strict=True)]

    def output_layer(self) -> Output:
        return self.output

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """The states before the output layer. To a language model a source is a prompt, read first."""
        if self.source_embedding is None and source.layout.total:
            whole, indices_N = prepend_prompts(source, inputs)
            states_ND = self.hidden_states(source.empty(), whole).states.values
            return HiddenStates(inputs.like(states_ND.index_select(0, indices_N)))
        stack, layout = self.stack, inputs.layout
        joined, positions_N = layout, layout.positions
        if source.layout.total:
            joined = join_layouts(source.layout, layout)
            positions_N = positions_N + source.layout.device_lengths[layout.row_ids]
        stream_ND = stack.embed(self.target_embedding(inputs.values), positions_N, joined.longest)
        if self.source_embedding is not None and source.layout.total:
            source_N, source_longest = source.layout.positions, source.layout.longest
            source_ND = stack.embed(self.source_embedding(source.values), source_N, source_longest)
            stream_ND, positions_N = torch.cat([source_ND, stream_ND]), torch.cat([source_N, positions_N])
        records = AttentionRecords(return_attention, {self.alignment_layer: None})
        stream_ND = stack(stream_ND, positions_N, self._patterns(source, inputs, joined), records=records)
        states_ND = self.readout(stack.normalize(stream_ND[source.layout.total :]))
        return HiddenStates(inputs.like(states_ND), tuple(records))

    def _patterns(self, source: Ragged, inputs: Ragged, joined: Layout) -> list[AttentionPattern]:
        """The pattern of each layer; ``joined``: the layout of source and target together."""
        stack, layout, device = self.stack, inputs.layout, inputs.device
        if not source.layout.total:
            return patterns_by_layer(
                lambda bias: RaggedAttention("decoder", layout, layout, causal=True, bias=bias),
                stack.self_attention_biases(layout.longest, device),
            )
        queries_BT = source.layout.device_lengths[:, None] + torch.arange(layout.longest, device=device)
        biases = stack.position_biases(queries_BT, torch.arange(joined.longest, device=device)[None])
        source_biases = stack.self_attention_biases(source.layout.longest, device)
        shared = {id(bias): source_bias for bias, source_bias in zip(biases, source_biases, strict=True)}

        def pattern(bias: Tensor | None) -> AttentionPattern:
            return PrefixAttention(source.layout, layout, joined, source_bias=shared[id(bias)], target_bias=bias)

        return patterns_by_layer(pattern, biases)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)
