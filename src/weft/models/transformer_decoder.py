"""The Transformer decoder: its state is the keys and values of the tokens so far instead of a recurrent state."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import RaggedAttention, patterns_by_layer
from weft.attention.records import AttentionRecords, ReturnAttention
from weft.attention.step_attention import History, KeysValues, StepKeysValues
from weft.models.cached_step import CachedState, cached_step
from weft.models.cpu_step import has_plain_layers, step_layers
from weft.models.encoders import Encoded
from weft.models.interface import AlignmentHeads, HiddenStates, alignment_layer, mean_of_heads
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged, additive_mask
from weft.recipe import TransformerSettings
from weft.tree import select


class TransformerMemory(NamedTuple):
    """Keys and values of the source. First axis of every tensor: the source row."""

    layers: tuple[KeysValues, ...]
    """(B, H, S, D) for each layer."""
    mask_B11S: Tensor
    """Additive: 0 at a source token, −∞ at padding. Of several source columns, a mask for each head (B, H, 1, S)."""

    def step_sources(self) -> list[StepKeysValues]:
        """Each layer's keys and values as a search step attends to them."""
        return [StepKeysValues(layer.keys, layer.values, self.mask_B11S) for layer in self.layers]


class TransformerState(NamedTuple):
    """The keys and values (R, H, T, D) of the tokens of R hypotheses, for each layer."""

    layers: tuple[KeysValues, ...]
    rows_R: Tensor | None = None
    """Which row of the layers belongs to each hypothesis; None: its own. The next step copies them in this order."""

    def select_rows(self, rows: Tensor) -> TransformerState:
        same_number = len(rows) == len(self.layers[0].keys)
        return self.keep_rows(rows) if same_number else self._copied(rows)

    def keep_rows(self, rows: Tensor) -> TransformerState:
        """Storage of the other rows is released by the next step."""
        keys_RHTD = self.layers[0].keys
        if keys_RHTD.is_cuda or keys_RHTD.requires_grad:
            return self._copied(rows)
        return self._replace(rows_R=rows if self.rows_R is None else self.rows_R.index_select(0, rows))

    def _copied(self, rows: Tensor) -> TransformerState:
        rows = rows if self.rows_R is None else self.rows_R.index_select(0, rows)
        return TransformerState(select(self.layers, rows))

    def with_capacity(self, tokens: int, *, return_attention: bool) -> CachedState:
        layers = self.layers if self.rows_R is None else select(self.layers, self.rows_R)
        return CachedState.of(layers, tokens, return_attention=return_attention)


class TransformerDecoder(nn.Module):
    """Every token attends to its history, then to the source, in every layer   Vaswani et al. 2017, 3.1."""

    has_sentence_steps: ClassVar[bool] = True
    """Whether `weft.models.sentence_steps` covers it."""

    def __init__(self, stack: TransformerStack, *, size: int, source_columns: int = 1) -> None:
        """``size``: of the hidden states it returns; ``source_columns``: that are attended to separately."""
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

    def build_memory(self, encoded: Encoded) -> TransformerMemory:
        """Keys and values of the source, computed once."""
        states = encoded.states
        pad_first = states.values.is_cuda and not torch.is_grad_enabled()  # fewer kernels matter more than smaller ones
        padded_BSD = states.to_padded() if pad_first else None
        layers = []
        for layer in self.stack.layers:
            assert layer.cross_attention is not None
            if padded_BSD is not None:
                parts = layer.cross_attention.keys_values(padded_BSD)
            else:
                keys_values = layer.cross_attention.keys_values(states.values)
                parts = KeysValues(*(states.like(part).to_padded() for part in keys_values))
            keys_BHSD, values_BHSD = parts.keys.transpose(1, 2), parts.values.transpose(1, 2)
            if not states.values.is_cuda:  # laid out as the products of every step read them, which would copy them
                keys_BHSD = keys_BHSD.transpose(2, 3).contiguous().transpose(2, 3)
                values_BHSD = values_BHSD.contiguous()
            layers.append(KeysValues(keys_BHSD, values_BHSD))
        mask_BHTS = self._column_mask(encoded)
        if mask_BHTS is None:
            mask_BHTS = additive_mask(states.layout.masked_BS, states.values.dtype)[:, None, None]
        return TransformerMemory(tuple(layers), mask_BHTS)

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

    def step(
        self, embedded_RE: Tensor, state: TransformerState | CachedState, memory: TransformerMemory
    ) -> tuple[Tensor, TransformerState | CachedState, Tensor | None]:
        """One step for R rows; the rows of one source are adjacent, so R is a multiple of the rows of the memory."""
        stack, source = self.stack, memory.step_sources()
        if isinstance(state, CachedState):
            stream_RD, state, attention_RS = cached_step(stack, embedded_RE, state, source, self.alignment)
            return self.readout(stream_RD), state, attention_RS
        time = state.layers[0].keys.shape[2]
        positions_R = torch.full((embedded_RE.shape[0],), time, device=embedded_RE.device)
        stream_RD = stack.embed(embedded_RE, positions_R, time + 1)
        history = [History(*layer, state.rows_R) for layer in state.layers]
        if has_plain_layers(stack, stream_RD):
            stream_RD, layers, weights = step_layers(stack, stream_RD, history, source, tuple(self.alignment))
        else:
            stream_RD, layers, all_weights = stack.step(stream_RD, positions_R, history, source)
            weights = dict(enumerate(all_weights))
        attention_RS = mean_of_heads(weights, self.alignment)
        return self.readout(stack.normalize(stream_RD)), TransformerState(layers), attention_RS

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
