"""Search steps of a Transformer decoder on a CPU, for any number of sentences.

Equal to `TransformerDecoder.step`; tests/fast/steps/test_cpu_transformer.py. Two things are saved: rows that a search
has selected are copied together with the next token, not before; and what is called is the products themselves, not
modules. Together 12 % of the time for two sentences, 8 % for eight, 5 % for thirty-two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.multihead import CrossAttention, KeysValues, SelfAttention
from weft.attention.normalizers import softmax
from weft.attention.ragged_attention import mean_of_heads
from weft.attention.relative_positions import Rotation
from weft.models.layers import ResidualBlock
from weft.models.transformer import TransformerLayer
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory, TransformerState
from weft.tree import select


class LazyState(NamedTuple):
    """The keys and values (R, H, T, D) of the tokens of R hypotheses, for each layer, in rows to be selected."""

    layers: tuple[KeysValues, ...]
    rows_R: Tensor | None = None
    """The row of the layers of each hypothesis; None: its own. The next step copies them in this order."""

    def select_rows(self, rows: Tensor) -> LazyState:
        is_as_long = len(rows) == len(self.layers[0].keys)
        return self.keep_rows(rows) if is_as_long else LazyState(select(self.layers, self._rows(rows)))

    def keep_rows(self, rows: Tensor) -> LazyState:
        """Storage of the other rows is released by the next step."""
        return self._replace(rows_R=self._rows(rows))

    def _rows(self, rows: Tensor) -> Tensor:
        return rows if self.rows_R is None else self.rows_R.index_select(0, rows)

    def copied(self) -> TransformerState:
        """The state with its rows copied to their hypotheses."""
        return TransformerState(self.layers if self.rows_R is None else select(self.layers, self.rows_R))


def applies(
    self: TransformerDecoder, embedded_RE: Tensor, state: TransformerState | LazyState, memory: TransformerMemory
) -> bool:
    """Whether `step` can be used: on a CPU, without dropout, gradients or autocast, and with plain attention."""
    if isinstance(state, LazyState):
        return True
    if embedded_RE.device.type != "cpu" or self.training or torch.is_grad_enabled():
        return False
    is_state = isinstance(state, TransformerState) and not torch.is_autocast_enabled("cpu")
    return is_state and all(map(_is_plain, self.stack.layers))


def _is_plain(layer: TransformerLayer) -> bool:
    own, cross = layer.self_attention, layer.cross_attention
    if type(own) is not SelfAttention or type(cross) is not CrossAttention or layer.feed_forward is None:
        return False
    return own.normalize is softmax and cross.normalize is softmax  # edited weights need their own axes


def step(
    self: TransformerDecoder, embedded_RE: Tensor, state: TransformerState | LazyState, memory: TransformerMemory
) -> tuple[Tensor, LazyState, Tensor]:
    """See `TransformerDecoder.step`."""
    stack, time = self.stack, state.layers[0].keys.shape[2]
    rows_R = state.rows_R if isinstance(state, LazyState) else None
    positions_R = torch.full((len(embedded_RE),), time)
    stream_RD = stack.embed(embedded_RE, positions_R, time + 1)
    rotation = stack.rotation(positions_R, stream_RD.dtype)
    biases = stack.position_biases(torch.tensor([time]), torch.arange(time + 1)) if stack.relative_bias else []
    longer: list[KeysValues] = []
    weights: dict[int, Tensor] = {}
    for number, layer in enumerate(stack.layers):
        residual = layer.self_attention_residual
        inputs_RD = _input(residual, stream_RD)
        queries_RHD, own = _project(layer.self_attention, inputs_RD, rotation)
        longer.append(KeysValues(*(_append(*both, rows_R) for both in zip(state.layers[number], own, strict=True))))
        attended_RD = _attend_to_history(queries_RHD, longer[-1], biases[number] if biases else None)
        stream_RD = _add(residual, stream_RD, _linear(layer.self_attention.output, attended_RD))
        stream_RD, weights_BHKS = _cross_attention(layer, stream_RD, memory.layers[number], memory.mask_B11S)
        if number in self.alignment:
            weights[number] = _by_row(weights_BHKS, len(embedded_RE), layer.self_attention.heads)
        stream_RD = _feed_forward(layer, stream_RD)
    output_RD: Tensor = self.readout(stack.normalize(stream_RD))
    return output_RD, LazyState(tuple(longer)), mean_of_heads(weights, self.alignment)


def _project(attention: SelfAttention, inputs_RD: Tensor, rotation: Rotation | None) -> tuple[Tensor, KeysValues]:
    """Queries, keys and values (R, H, D)."""
    heads, kv_heads = attention.heads, attention.kv_heads
    projected_RHD = _linear(attention.query_key_value, inputs_RD).view(len(inputs_RD), -1, attention.head_width)
    queries_RHD, keys_RHD, values_RHD = projected_RHD.split([heads, kv_heads, kv_heads], 1)
    if rotation is not None:
        queries_RHD, keys_RHD = rotation.rotate(queries_RHD), rotation.rotate(keys_RHD)
    return queries_RHD, KeysValues(keys_RHD, values_RHD)


def _append(history_RHTD: Tensor, token_RHD: Tensor, rows_R: Tensor | None) -> Tensor:
    """The selected rows of a history, with the next token of each."""
    if rows_R is None:
        return torch.cat([history_RHTD, token_RHD[:, :, None]], 2)
    _, heads, length, width = history_RHTD.shape
    longer_RHTD = history_RHTD.new_empty(len(rows_R), heads, length + 1, width)
    torch.index_select(history_RHTD, 0, rows_R, out=longer_RHTD[:, :, :length])
    longer_RHTD[:, :, length] = token_RHD
    return longer_RHTD


def _attend_to_history(queries_RHD: Tensor, history: KeysValues, bias_H1T: Tensor | None) -> Tensor:
    """(R, H × D); G heads share each of the key–value heads, of which there are N with those of all rows."""
    rows, heads, width = queries_RHD.shape
    keys_NTD, values_NTD = history.keys.flatten(0, 1), history.values.flatten(0, 1)
    scores_NGT = torch.bmm(queries_RHD.reshape(len(keys_NTD), -1, width), keys_NTD.transpose(1, 2))
    scores_NGT = scores_NGT.div_(math.sqrt(width))
    if bias_H1T is not None:
        scores_NGT.view(rows, heads, -1).add_(bias_H1T[:, 0])
    return torch.bmm(torch.softmax(scores_NGT, -1), values_NTD).view(rows, heads * width)


def _cross_attention(
    layer: TransformerLayer, stream_RD: Tensor, source: KeysValues, mask_B11S: Tensor
) -> tuple[Tensor, Tensor]:
    """The stream after it, and the weights (B, key–value heads, rows per source × heads that share one, S)."""
    attention, residual = layer.cross_attention, layer.cross_attention_residual
    assert attention is not None
    rows, kv_heads, width, sources = len(stream_RD), attention.kv_heads, attention.head_width, len(mask_B11S)
    queries_RD = _linear(attention.query, _input(residual, stream_RD))
    queries_BKHGD = queries_RD.view(sources, rows // sources, kv_heads, -1, width)
    queries_BHKD = queries_BKHGD.transpose(1, 2).flatten(2, 3)
    scores_BHKS = torch.matmul(queries_BHKD, source.keys.transpose(2, 3)).div_(math.sqrt(width))
    weights_BHKS = torch.softmax(scores_BHKS.add_(mask_B11S), -1)
    outputs_BHKD = torch.matmul(weights_BHKS, source.values)
    attended_RHD = _by_row(outputs_BHKD, rows, attention.heads)
    return _add(residual, stream_RD, _linear(attention.output, attended_RHD.flatten(1))), weights_BHKS


def _by_row(values_BHKD: Tensor, rows: int, heads: int) -> Tensor:
    """(B, key–value heads, rows per source × heads that share one, D) -> (R, H, D)."""
    sources, kv_heads, _, width = values_BHKD.shape
    values_BHKGD = values_BHKD.view(sources, kv_heads, rows // sources, heads // kv_heads, width)
    return values_BHKGD.transpose(1, 2).reshape(rows, heads, width)


def _feed_forward(layer: TransformerLayer, stream_RD: Tensor) -> Tensor:
    network, residual = layer.feed_forward, layer.feed_forward_residual
    assert network is not None
    hidden_RF = network.activation(_linear(network.linear1, _input(residual, stream_RD)))
    return _add(residual, stream_RD, _linear(network.linear2, hidden_RF))


def _input(residual: ResidualBlock, stream_RD: Tensor) -> Tensor:
    """The input of a sub-layer."""
    return normalize(residual.norm, stream_RD) if residual.pre_norm else stream_RD


def _add(residual: ResidualBlock, stream_RD: Tensor, output_RD: Tensor) -> Tensor:
    """The stream after the output of a sub-layer was added, without dropout."""
    added_RD = stream_RD + output_RD
    return added_RD if residual.pre_norm else normalize(residual.norm, added_RD)


def normalize(norm: nn.Module, stream_RD: Tensor) -> Tensor:
    """A norm, in one call where it is a layer norm."""
    if type(norm) is not nn.LayerNorm:
        normalized_RD: Tensor = norm(stream_RD)
        return normalized_RD
    return torch.layer_norm(stream_RD, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _linear(linear: nn.Module, inputs_RD: Tensor) -> Tensor:
    """The product itself where a linear map is nothing else; 8-bit products and adapters are called as modules."""
    if type(linear) is not nn.Linear:
        outputs_RE: Tensor = linear(inputs_RD)
        return outputs_RE
    return functional.linear(inputs_RD, linear.weight, linear.bias)
