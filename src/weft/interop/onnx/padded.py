"""Attention, positions and recurrence over padded batches, as a graph with dynamic shapes can express them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.hard_alignment import First, Monotonic, Transitions, logsumexp
from weft.attention.multihead import KeysValues, MultiHeadAttention
from weft.attention.relative_positions import Rotation
from weft.models.positions import Learned, Sinusoidal
from weft.models.recurrent import LayerState

if TYPE_CHECKING:
    from weft.models.recurrent import RecurrentStack, StackState
    from weft.models.transformer import TransformerStack

POSITIONS = 4096
"""Positions of a table of sinusoids in a graph."""


class PositionTable(nn.Module):
    """Absolute positions as one table of fixed size, in place of one that grows."""

    def __init__(self, positions: Sinusoidal | Learned) -> None:
        super().__init__()
        if isinstance(positions, Learned):
            table_PD = positions.weight_PD.detach()
        else:
            table_PD = positions.table.make(POSITIONS).float()
        self.register_buffer("table_PD", table_PD)
        self.table_PD: Tensor

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        return functional.embedding(positions_N, self.table_PD)


class PlainMonotonic(Monotonic):
    """Monotonic alignments with sums over i ≤ j that are written out: ONNX has no cumulative log-sum-exp."""

    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        scores_BTS = self.scores(queries_BTD, keys_BSD)
        masked_BTS = masked_BS[:, None].expand_as(scores_BTS)
        lowest = torch.finfo(scores_BTS.dtype).min / 2
        summed_BTS = scores_BTS.masked_fill(masked_BTS, lowest)
        normalizers_BTS = _cumulative_logsumexp(summed_BTS.flip(-1)).flip(-1)
        return scores_BTS.masked_fill(masked_BTS, float("-inf")), normalizers_BTS

    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        scores_RS, normalizers_RS = transitions
        return scores_RS + _cumulative_logsumexp(filtered_RS - normalizers_RS)


class PlainFirst(First):
    """Alignments of first order with indices in place of windows, whose sizes an exported graph would fix."""

    def transitions(self, queries_BTD: Tensor, keys_BSD: Tensor, masked_BS: Tensor) -> Transitions:
        hidden_BTSA = torch.tanh(keys_BSD[:, None] + self.query_projection(queries_BTD)[:, :, None])
        jumps_BTSW = self.jumps(hidden_BTSA).float()
        length, width = masked_BS.shape[1], self.jumps.out_features
        places_SW = torch.arange(length)[:, None] + torch.arange(width)
        outside_BSW = masked_BS[:, places_SW.clamp(max=length - 1)] | (places_SW >= length)
        outside_BSW = outside_BSW & (torch.arange(width) > 0)  # to stay is always possible
        return (jumps_BTSW.masked_fill(outside_BSW[:, None], float("-inf")).log_softmax(-1),)

    def predict(self, filtered_RS: Tensor, transitions: Transitions) -> Tensor:
        arriving_RSW = filtered_RS[..., None] + transitions[0]
        length, width = filtered_RS.shape[1], self.jumps.out_features
        before_SW = torch.arange(length)[:, None] - torch.arange(width)
        shifted_RSW = arriving_RSW.gather(1, before_SW.clamp(min=0).expand_as(arriving_RSW))
        return logsumexp(shifted_RSW.masked_fill(before_SW < 0, float("-inf")), -1)


def _cumulative_logsumexp(values: Tensor) -> Tensor:
    """log Σ_{i ≤ j} exp(values_i)"""
    places_S = torch.arange(values.shape[-1])
    later_SS = places_S > places_S[:, None]
    return logsumexp(values[..., None, :].masked_fill(later_SS, float("-inf")), -1)


class Layers(NamedTuple):
    """Inputs of Transformer layers besides the hidden states."""

    positions_T: Tensor
    biases: list[Tensor | None]
    """Added to the scores of self-attention, for each layer: (…, T, S)."""
    past: Sequence[KeysValues] = ()
    """(B, H, P, D) of earlier tokens, for each layer; empty: there are none."""
    source: Sequence[KeysValues] = ()
    """(B, H, S, D) of the source, for each layer."""
    mask_B11S: Tensor | None = None
    """Source mask."""


def run_transformer(
    stack: TransformerStack, embedded_BTE: Tensor, inputs: Layers
) -> tuple[Tensor, tuple[KeysValues, ...]]:
    """`TransformerStack` over a padded batch: the states with the final norm; keys and values so far of each layer."""
    stream_BTD = stack.embed(embedded_BTE, inputs.positions_T, 0)
    rotation = stack.rotation(inputs.positions_T, stream_BTD.dtype)
    if rotation is not None:
        rotation = Rotation(rotation.cosines[None], rotation.sines[None])
    kept = []
    for number, layer in enumerate(stack.layers):
        attention, residual = layer.self_attention, layer.self_attention_residual
        projected_BHTD = _heads(attention, attention.query_key_value(residual.input(stream_BTD)))
        kv_heads = attention.kv_heads
        queries_BHTD, keys_BHSD, values_BHSD = projected_BHTD.split([attention.heads, kv_heads, kv_heads], 1)
        if rotation is not None:
            queries_BHTD, keys_BHSD = rotation.rotate(queries_BHTD), rotation.rotate(keys_BHSD)
        if inputs.past:
            past = inputs.past[number]
            keys_BHSD, values_BHSD = torch.cat([past.keys, keys_BHSD], 2), torch.cat([past.values, values_BHSD], 2)
        own = KeysValues(keys_BHSD, values_BHSD)
        kept.append(own)
        stream_BTD = residual.add(stream_BTD, _attend(attention, queries_BHTD, own, inputs.biases[number]))
        if inputs.source and layer.cross_attention is not None:
            cross, residual = layer.cross_attention, layer.cross_attention_residual
            queries_BHTD = _heads(cross, cross.query(residual.input(stream_BTD)))
            attended_BTD = _attend(cross, queries_BHTD, inputs.source[number], inputs.mask_B11S)
            stream_BTD = residual.add(stream_BTD, attended_BTD)
        if layer.feed_forward is not None:
            residual = layer.feed_forward_residual
            stream_BTD = residual.add(stream_BTD, layer.feed_forward(residual.input(stream_BTD)))
    return stack.normalize(stream_BTD), tuple(kept)


def _heads(attention: MultiHeadAttention, projected_BTD: Tensor) -> Tensor:
    return projected_BTD.unflatten(-1, (-1, attention.head_width)).transpose(1, 2)


def _attend(attention: MultiHeadAttention, queries_BHTD: Tensor, source: KeysValues, bias: Tensor | None) -> Tensor:
    """Multi-head attention with its output projection; ``bias``: added to the scores."""
    keys_BHSD, values_BHSD = source
    if attention.kv_heads < attention.heads:
        group = attention.heads // attention.kv_heads
        keys_BHSD, values_BHSD = (part.repeat_interleave(group, 1) for part in (keys_BHSD, values_BHSD))
    scores_BHTS = queries_BHTD @ keys_BHSD.transpose(2, 3) / math.sqrt(attention.head_width)
    weights_BHTS = attention.normalize(scores_BHTS if bias is None else scores_BHTS + bias)
    return attention.output((weights_BHTS @ values_BHSD).transpose(1, 2).flatten(2))


def run_stack(stack: RecurrentStack, inputs_BSD: Tensor, tokens_BS: Tensor) -> tuple[Tensor, StackState]:
    """`RecurrentStack.forward` over a padded batch: the outputs of the top layer, and the last state of every layer.

    ``tokens_BS``: True at a token. At padding a state stays as it is.
    """
    finals: list[LayerState] = []
    for level in range(len(stack.layers)):
        results = [
            _run_direction(stack, inputs_BSD, tokens_BS, level=level, direction=direction)
            for direction in range(stack.directions)
        ]
        outputs, directions = zip(*results, strict=True)
        finals.append(tuple(torch.cat(parts, -1) for parts in zip(*directions, strict=True)))
        inputs_BSD = stack.layer_output(level, inputs_BSD, torch.cat(outputs, -1))
    return inputs_BSD, tuple(finals)


def _run_direction(
    stack: RecurrentStack, inputs_BSD: Tensor, tokens_BS: Tensor, *, level: int, direction: int
) -> tuple[Tensor, LayerState]:
    """One layer in one direction; the backward one reads the batch from its end, where the padding is."""
    weights, cell = stack.weights(level, direction), stack.cell
    gates_SBG = functional.linear(inputs_BSD, weights.input_GD, weights.input_bias_G).transpose(0, 1)
    tokens_SB1 = tokens_BS.transpose(0, 1)[..., None]
    if direction:
        gates_SBG, tokens_SB1 = gates_SBG.flip(0), tokens_SB1.flip(0)

    def step(state: LayerState, inputs: tuple[Tensor, Tensor]) -> tuple[LayerState, Tensor]:
        input_BG, token_B1 = inputs
        state_BG = functional.linear(state[0], weights.state_GD, weights.state_bias_G)
        new = cell.step(input_BG, state_BG, state)
        kept = tuple(torch.where(token_B1, after, before) for after, before in zip(new, state, strict=True))
        return kept, kept[0].clone()

    hidden = stack.hidden // stack.directions
    start = tuple(inputs_BSD.new_zeros(inputs_BSD.shape[0], hidden) for _ in range(cell.state_parts))
    final, outputs_SBD = _scan(step, start, (gates_SBG, tokens_SB1))
    outputs_SBD = outputs_SBD.flip(0) if direction else outputs_SBD
    return outputs_SBD.transpose(0, 1), final


def _scan(step: Any, state: LayerState, inputs: tuple[Tensor, Tensor]) -> tuple[LayerState, Tensor]:
    """The last state and all outputs of a loop over the first axis: a loop of the graph while one is exported."""
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.scan import scan

        return scan(step, state, inputs)
    outputs = []
    for parts in zip(*inputs, strict=True):
        state, output = step(state, parts)
        outputs.append(output)
    return state, torch.stack(outputs)
