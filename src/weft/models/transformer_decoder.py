"""The Transformer decoder: its state is the keys and values of the tokens so far instead of a recurrent state."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.edits import AttentionRole
from weft.attention.multihead import KeysValues, StepKeysValues
from weft.attention.ragged_attention import (
    AlignmentHeads,
    AttentionRecords,
    RaggedAttention,
    ReturnAttention,
    alignment_layer,
    mean_of_heads,
    patterns_by_layer,
)
from weft.models.architecture import AttentionShape, PartArchitecture
from weft.models.interface import Encoded, HiddenStates
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged, additive_mask
from weft.recipe import TransformerSettings
from weft.runtime.replaceable import replaceable


class TransformerMemory(NamedTuple):
    """Keys and values of the source. First axis of every tensor: the source row."""

    layers: tuple[KeysValues, ...]
    """(B, H, S, D) for each layer."""
    mask_B11S: Tensor
    """Additive mask: 0 at a source token, −∞ at padding; for several source columns, one per head (B, H, 1, S)."""

    def step_sources(self) -> list[StepKeysValues]:
        """Each layer's keys and values as a search step attends to them."""
        return [StepKeysValues(layer.keys, layer.values, self.mask_B11S) for layer in self.layers]


class TransformerState(NamedTuple):
    """The keys and values (R, H, T, D) of the tokens of R hypotheses, for each layer."""

    layers: tuple[KeysValues, ...]


class TransformerDecoder(nn.Module):
    """Every token attends to its history, then to the source, in every layer   Vaswani et al. 2017, 3.1."""

    def __init__(self, stack: TransformerStack, *, size: int, source_columns: int = 1) -> None:
        """``size``: width of the returned states; ``source_columns``: number of columns attended to separately."""
        super().__init__()
        self.stack = stack
        self.size = size
        self.source_columns = source_columns
        self.readout = nn.Identity() if size == stack.width else nn.Linear(stack.width, size)
        self.alignment_layer = alignment_layer(len(stack.layers))
        heads = alignment_heads(stack.settings)
        self.alignment: AlignmentHeads = heads or {self.alignment_layer: None}

    @property
    def max_positions(self) -> int | None:
        """The longest target; None: unlimited."""
        return self.stack.max_positions

    def part_architecture(self, module: str) -> PartArchitecture:
        stack, heads = f"{module}.stack", self.stack.settings.heads * self.source_columns
        own = self.stack.self_attentions(stack, "decoder")
        cross = [
            AttentionShape(f"{stack}.layers.{number}.cross_attention", AttentionRole("cross", number), heads)
            for number in range(len(self.stack.layers))
        ]
        attentions = tuple(chain.from_iterable(zip(own, cross, strict=True)))
        return PartArchitecture((self.stack.shape(stack),), attentions)

    @replaceable
    def build_memory(self, encoded: Encoded) -> TransformerMemory:
        """Keys and values of the source, computed once."""
        states = encoded.states
        layers = []
        for layer in self.stack.layers:
            assert layer.cross_attention is not None
            keys_values = layer.cross_attention.keys_values(states.values)
            layers.append(KeysValues(*(states.like(part).to_padded().transpose(1, 2) for part in keys_values)))
        return TransformerMemory(tuple(layers), self.source_mask(encoded))

    def source_mask(self, encoded: Encoded) -> Tensor:
        """The additive mask of a search step, (B, 1, 1, S); for several source columns (B, H, 1, S)."""
        states = encoded.states
        mask_BHTS = self._column_mask(encoded)
        if mask_BHTS is None:
            mask_BHTS = additive_mask(states.layout.masked_BS, states.values.dtype)[:, None, None]
        return mask_BHTS

    def _column_mask(self, encoded: Encoded) -> Tensor | None:
        """(B, H, 1, S) which source column each head attends to; None if every head attends to all."""
        if self.source_columns == 1 or encoded.columns_N is None:
            return None
        from weft.attention.source_attention import column_masks

        states = encoded.states
        masks_BKS = column_masks(states.layout, encoded.columns_N, self.source_columns, states.values.dtype)
        return masks_BKS.repeat_interleave(self.stack.settings.heads, 1)[:, :, None]

    def start(self, memory: TransformerMemory) -> TransformerState:
        return TransformerState(self.stack.empty_history(memory.mask_B11S.shape[0], memory.mask_B11S))

    @replaceable
    def step(
        self, embedded_RE: Tensor, state: TransformerState, memory: TransformerMemory
    ) -> tuple[Tensor, TransformerState, Tensor]:
        """One step for R rows; the rows of one source are adjacent, so R is a multiple of the rows of the memory."""
        stack, time = self.stack, state.layers[0].keys.shape[2]
        positions_R = torch.full((len(embedded_RE),), time, device=embedded_RE.device)
        stream_RD = stack.embed(embedded_RE, positions_R, time + 1)
        stream_RD, layers, weights = stack.step(stream_RD, positions_R, state.layers, memory.step_sources())
        output_RD = self.readout(stack.normalize(stream_RD))
        return output_RD, TransformerState(layers), mean_of_heads(dict(enumerate(weights)), self.alignment)

    def forward(self, embedded: Ragged, encoded: Encoded, *, return_attention: ReturnAttention = False) -> HiddenStates:
        """Teacher forcing: the hidden states of whole targets."""
        stack, layout, source = self.stack, embedded.layout, encoded.states
        records = AttentionRecords(return_attention, self.alignment)
        stream_ND = stack.embed(embedded.values, layout.positions, layout.longest)
        history = patterns_by_layer(
            lambda bias: RaggedAttention("decoder", layout, layout, causal=True, bias=bias),
            stack.self_attention_biases(layout.longest, stream_ND.device),
        )
        cross = RaggedAttention("cross", layout, source.layout, bias=self._column_mask(encoded))
        stream_ND = stack(stream_ND, layout.positions, history, source.values, cross, records)
        return HiddenStates(embedded.like(self.readout(stack.normalize(stream_ND))), tuple(records))


def alignment_heads(settings: TransformerSettings) -> dict[int, tuple[int, ...]]:
    """The heads that are chosen as the word alignment, by layer."""
    heads: dict[int, tuple[int, ...]] = {}
    for layer, head in sorted(getattr(settings, "alignment_heads", ())):
        heads[layer] = (*heads.get(layer, ()), head)
    return heads
