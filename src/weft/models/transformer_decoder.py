"""The Transformer's decoder: what it has said is kept as keys and values instead of a recurrent state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention import AttentionRecord, KeysValues, KVCache, RaggedAttention, StepKeysValues, recorder_for
from weft.models.encoders import Encoded
from weft.models.interface import HiddenStates, alignment_layer
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged


class TransformerMemory(NamedTuple):
    """What the source says to a Transformer. First axis of every tensor: the source row."""

    layers: tuple[KeysValues, ...]
    """Every layer's keys and values (B, H, S, D) of the source."""
    bias_B11S: Tensor
    """0 where there is an item, −∞ where a row has ended."""


class TransformerState(NamedTuple):
    """What a hypothesis has said so far: every layer's keys and values (R, H, T, D) of it."""

    layers: tuple[KeysValues, ...]

    def with_capacity(self, capacity: int, *, return_attention: bool) -> FixedState:
        past = KVCache.of(self.layers, capacity)
        return WatchedState(past) if return_attention else FixedState(past)


class FixedState(NamedTuple):
    """The same with room for what is to come."""

    past: KVCache


class WatchedState(FixedState):
    """The same where the attention weights are wanted."""


class TransformerDecoder(nn.Module):
    """Every token looks back over what was said, then at the source, layer upon layer   Vaswani et al. 2017, 3.1."""

    def __init__(self, stack: TransformerStack, *, size: int) -> None:
        """``size``: of the states given."""
        super().__init__()
        self.stack = stack
        self.size = size
        self.readout = nn.Identity() if size == stack.size else nn.Linear(stack.size, size)
        self.alignment_layer = alignment_layer(len(stack.layers))

    def remember(self, encoded: Encoded) -> TransformerMemory:
        """What is kept of a source."""
        states = encoded.states
        layers = []
        at_once = states.values.is_cuda and not torch.is_grad_enabled()  # few kernels matter more than small ones
        grid_BSD = states.to_padded() if at_once else None
        for layer in self.stack.layers:
            assert layer.cross is not None
            if grid_BSD is not None:
                layers.append(KeysValues(*(part.transpose(1, 2) for part in layer.cross.keys_values(grid_BSD))))
                continue
            found = layer.cross.keys_values(states.values)
            layers.append(KeysValues(*(states.like(part).to_padded().transpose(1, 2) for part in found)))
        blocked_BS = states.layout.masked_BS
        bias_BS = states.values.new_zeros(blocked_BS.shape).masked_fill(blocked_BS, float("-inf"))
        return TransformerMemory(tuple(layers), bias_BS[:, None, None])

    def start(self, memory: TransformerMemory) -> TransformerState:
        return TransformerState(self.stack.empty_past(len(memory.bias_B11S), memory.bias_B11S))

    def step(
        self, embedded_RE: Tensor, state: TransformerState | FixedState, memory: TransformerMemory
    ) -> tuple[Tensor, TransformerState | FixedState, Tensor | None]:
        """One step for R rows; the rows of one source stand side by side, so R is a multiple of memory's rows."""
        if isinstance(state, FixedState):
            return self._step_in_place(embedded_RE, state, memory)
        stack, time = self.stack, state.layers[0].keys.shape[2]
        places_R = torch.full((len(embedded_RE),), time, device=embedded_RE.device)
        stream_RD = stack.begin(embedded_RE, places_R, time + 1)
        rotation = stack.rotation(places_R, stream_RD.dtype)
        bias = stack.bias(places_R[:1], torch.arange(time + 1, device=embedded_RE.device))
        layers: list[KeysValues] = []
        looked_RS = None
        for number, (layer, past, items) in enumerate(zip(stack.layers, state.layers, memory.layers, strict=True)):
            stream_RD, longer, weights_RHS = layer.step(
                stream_RD,
                past,
                rotation,
                None if bias is None else bias[None],
                items=StepKeysValues(items.keys, items.values, memory.bias_B11S),
            )
            layers.append(longer)
            if number == self.alignment_layer:
                looked_RS = weights_RHS.mean(1)
        return self.readout(stack.end(stream_RD)), TransformerState(tuple(layers)), looked_RS

    def _step_in_place(
        self, embedded_RE: Tensor, state: FixedState, memory: TransformerMemory
    ) -> tuple[Tensor, FixedState, Tensor | None]:
        """The same where nothing changes its shape and nothing waits, so that a search can be recorded."""
        stack, past, rows = self.stack, state.past, len(embedded_RE)
        room = past.table_RT.shape[1]
        longest = min(room, stack.max_length or room)  # rows that are done may be taken some steps too far
        places_R = past.time_1.clamp(max=longest - 1).expand(rows)
        stream_RD = stack.begin(embedded_RE, places_R, longest)
        rotation = stack.rotation(places_R, stream_RD.dtype)
        bias = stack.bias(past.time_1, torch.arange(room, device=embedded_RE.device))
        bias_HT = None if bias is None else bias[:, 0].contiguous()
        looked_RS = pending_RD = None
        for number, (layer, items) in enumerate(zip(stack.layers, memory.layers, strict=True)):
            looks = number == self.alignment_layer and isinstance(state, WatchedState)
            across = StepKeysValues(items.keys, items.values, memory.bias_B11S)
            stream_RD, pending_RD, weights_RHS = layer.step_in_place(
                stream_RD, pending_RD, past, number, rotation, bias_HT, across, looks
            )
            if weights_RHS is not None:
                looked_RS = weights_RHS.mean(1)
        state = state._replace(past=past._replace(time_1=past.time_1 + 1))
        return self.readout(stack.end(stream_RD, pending_RD)), state, looked_RS

    def forward(self, embedded: Ragged, encoded: Encoded, *, return_attention: bool = False) -> HiddenStates:
        """Teacher forcing: the states for whole targets."""
        stack, layout, items = self.stack, embedded.layout, encoded.states
        stream_ND = stack.begin(embedded.values, layout.positions, layout.longest)
        bias = stack.own_bias(layout.longest, stream_ND)
        back = RaggedAttention("decoder", layout, layout, causal=True, bias=bias)
        across = RaggedAttention("cross", layout, items.layout)
        rotation = stack.rotation(layout.positions, stream_ND.dtype)
        records: list[AttentionRecord] | None = [] if return_attention else None
        for number, layer in enumerate(stack.layers):
            stream_ND = layer(stream_ND, back, rotation, items.values, across, recorder_for(records, number))
        return HiddenStates(embedded.like(self.readout(stack.end(stream_ND))), tuple(records or ()))
