"""Transformer layers.

**Training in half precision on a GPU**: all of it but matrix products is done by kernels. Equal to
`TransformerStack.forward`, with `TransformerLayer.forward`, and `TransformerStack.embed` up to rounding, with other
dropout masks, and to `weft.models.layers.normalize`; tests/fast/layers/test_transformer.py and
tests/contracts/test_gpu.py.

Between two sub-layers the states have two uses: the next sub-layer reads them, and its output is added to them. They
are passed on as two tensors in the same memory, so that a kernel adds the gradients of both.

**Attention over padded batches** by PyTorch's `scaled_dot_product_attention`, which keeps no weights. Equal to
`RaggedAttention.attend` for softmax without returned weights, up to rounding;
tests/fast/layers/test_transformer_padded_attention.py. It needs no mask where the kernel knows it: padding comes last,
so a causal query never reaches it.

**Keys and values of the source**, laid out as the search steps read them. Equal to `TransformerDecoder.build_memory`;
tests/fast/layers/test_transformer_source_memory.py. On a GPU the states are padded before they are projected: fewer
kernels matter more than smaller ones. On a CPU keys and values are contiguous in the order in which the products of
every step read them, which would otherwise copy them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.multihead import CrossAttention, KeysValues, MultiHeadAttention, SelfAttention
from weft.attention.normalizers import Normalizer, softmax
from weft.attention.ragged_attention import (
    AttentionPattern,
    AttentionRecorder,
    AttentionRecords,
    RaggedAttention,
    repeat_heads,
)
from weft.attention.relative_positions import Rotation
from weft.fast.layers.adjacent_heads import split_heads
from weft.fast.layers.layer_kernels import (
    MAX_NORM_WIDTH,
    add_positions,
    dropout_add,
    has_feed_forward_kernel,
    has_layer_kernels,
    has_norm_kernel,
    has_position_kernel,
    linear,
    relu_feed_forward,
    residual_norm,
)
from weft.fast.layers.varlen_attention import HEAD_WIDTHS
from weft.models.interface import Encoded
from weft.models.layers import ResidualBlock
from weft.models.positions import Sinusoidal
from weft.models.transformer import ACTIVATIONS, FeedForward, TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory
from weft.ragged import Ragged


def has_kernels(stack: TransformerStack) -> bool:
    """Whether there are kernels for all of its layers but matrix products, so that compiling them gains nothing."""
    settings, layer = stack.settings, stack.layers[0]
    undropped = settings.attention_dropout == settings.activation_dropout == 0.0
    plain_scores = settings.positions not in ("rotary", "relative", "alibi") and settings.head_width in HEAD_WIDTHS
    plain_attention = layer.self_attention.normalize is softmax and _is_single(layer.cross_attention)
    is_relu = settings.activation == "relu" and settings.hidden <= MAX_NORM_WIDTH
    return undropped and plain_scores and plain_attention and is_relu


def _is_single(attention: CrossAttention | None) -> bool:
    """Whether all heads attend to the whole source."""
    return attention is None or type(attention) is CrossAttention


# The input


def applies_to_embed(self: TransformerStack, embedded_NE: Tensor, positions_N: Tensor, longest: int) -> bool:
    """Whether the input is embeddings plus sinusoids, in training in half precision."""
    if not has_position_kernel(embedded_NE):
        return False
    is_direct = isinstance(self.input_projection, nn.Identity) and self.embedding_norm is None
    return is_direct and isinstance(self.positions, Sinusoidal)


def embed(self: TransformerStack, embedded_NE: Tensor, positions_N: Tensor, longest: int) -> Tensor:
    """The input of the first layer, by one kernel."""
    probability = (self.settings.embedding_dropout or 0.0) if self.training else 0.0
    table_PD = cast(Sinusoidal, self.positions).table(longest)
    return add_positions(embedded_NE, self.embedding_scale, table_PD, positions_N, probability)


def applies_to_normalize(norm: nn.Module, stream_ND: Tensor) -> bool:
    return has_norm_kernel(norm, stream_ND)


def normalize(norm: nn.Module, stream_ND: Tensor) -> Tensor:
    """A norm by one kernel."""
    return residual_norm(norm, stream_ND)[0]


# The layers


class Stream(NamedTuple):
    """The states between two sub-layers, once for each of their uses."""

    input_ND: Tensor
    """The input of the next sub-layer."""
    residual_ND: Tensor
    """The residual with the same values, to which the sub-layer's output is added."""


def applies_to_forward(
    self: TransformerStack,
    stream_ND: Tensor,
    positions_N: Tensor,
    patterns: Sequence[AttentionPattern],
    source_MD: Tensor | None = None,
    source_pattern: AttentionPattern | None = None,
    records: AttentionRecords | None = None,
) -> bool:
    """Whether such a stream is for kernels; layers that were compiled are called as they are."""
    return has_layer_kernels(stream_ND) and all(layer._compiled_call_impl is None for layer in self.layers)


def forward(
    self: TransformerStack,
    stream_ND: Tensor,
    positions_N: Tensor,
    patterns: Sequence[AttentionPattern],
    source_MD: Tensor | None = None,
    source_pattern: AttentionPattern | None = None,
    records: AttentionRecords | None = None,
) -> Tensor:
    """All layers, before the final norm."""
    rotation = self.rotation(positions_N, stream_ND.dtype)
    stream = Stream(stream_ND, stream_ND)
    for number, (layer, pattern) in enumerate(zip(self.layers, patterns, strict=True)):
        recorder = None if records is None else records.recorder(number)
        stream = layer(stream, pattern, rotation, source_MD, source_pattern, recorder)
    return stream.input_ND


def applies_to_layer(
    self: TransformerLayer,
    stream_ND: Tensor | Stream,
    pattern: AttentionPattern,
    rotation: Rotation | None = None,
    source_MD: Tensor | None = None,
    source_pattern: AttentionPattern | None = None,
    recorder: AttentionRecorder | None = None,
) -> bool:
    """Whether the layer is in a stack of such layers."""
    return isinstance(stream_ND, Stream)


def layer_forward(
    self: TransformerLayer,
    stream_ND: Stream,
    pattern: AttentionPattern,
    rotation: Rotation | None = None,
    source_MD: Tensor | None = None,
    source_pattern: AttentionPattern | None = None,
    recorder: AttentionRecorder | None = None,
) -> Stream:
    """One layer, from stream to stream."""
    stream = _self_attention(self, stream_ND, pattern, rotation, recorder)
    if self.cross_attention is not None and source_MD is not None and source_pattern is not None:
        stream = _cross_attention(self, stream, source_MD, source_pattern, recorder)
    if self.feed_forward is not None:
        residual = self.feed_forward_residual
        stream = _add(residual, stream, _feed_forward(self.feed_forward, residual.input(stream.input_ND)))
    return stream


def _self_attention(
    layer: TransformerLayer,
    stream: Stream,
    pattern: AttentionPattern,
    rotation: Rotation | None,
    recorder: AttentionRecorder | None,
) -> Stream:
    attention: SelfAttention = layer.self_attention
    residual = layer.self_attention_residual
    projected_NHD = attention.split_heads(linear(attention.query_key_value, residual.input(stream.input_ND)))
    sizes = [attention.heads, attention.kv_heads, attention.kv_heads]
    queries_NHD, keys_NHD, values_NHD = split_heads(projected_NHD, sizes)
    if rotation is not None:
        queries_NHD, keys_NHD = rotation.rotate(queries_NHD), rotation.rotate(keys_NHD)
    return _add(residual, stream, _attend(attention, queries_NHD, KeysValues(keys_NHD, values_NHD), pattern, recorder))


def _cross_attention(
    layer: TransformerLayer,
    stream: Stream,
    source_MD: Tensor,
    pattern: AttentionPattern,
    recorder: AttentionRecorder | None,
) -> Stream:
    attention, residual = layer.cross_attention, layer.cross_attention_residual
    assert attention is not None
    queries_NHD = attention.split_heads(linear(attention.query, residual.input(stream.input_ND)))
    projected_MHD = attention.split_heads(linear(attention.key_value, source_MD))
    source = KeysValues(*split_heads(projected_MHD, [attention.kv_heads, attention.kv_heads]))
    return _add(residual, stream, _attend(attention, queries_NHD, source, pattern, recorder))


def _attend(
    attention: MultiHeadAttention,
    queries_NHD: Tensor,
    source: KeysValues,
    pattern: AttentionPattern,
    recorder: AttentionRecorder | None,
) -> Tensor:
    dropout = attention.dropout if attention.training else 0.0
    outputs_NHD = pattern.attend(
        queries_NHD, source.keys, source.values, dropout=dropout, normalize=attention.normalize, recorder=recorder
    )
    return linear(attention.output, outputs_NHD.flatten(1))


def _feed_forward(network: FeedForward, inputs_ND: Tensor) -> Tensor:
    is_relu = network.activation is ACTIVATIONS["relu"] and network.dropout == 0.0
    if is_relu and has_feed_forward_kernel(network.linear1, network.linear2, inputs_ND):
        return relu_feed_forward(network.linear1, network.linear2, inputs_ND)
    outputs_ND: Tensor = network(inputs_ND)
    return outputs_ND


def _add(residual: ResidualBlock, stream: Stream, output_ND: Tensor) -> Stream:
    """The stream after the output of a sub-layer was added, for both uses."""
    stream_ND, probability = stream.residual_ND, residual.dropout if residual.training else 0.0
    if not residual.pre_norm and has_norm_kernel(residual.norm, stream_ND):
        return Stream(*residual_norm(residual.norm, stream_ND, output_ND, probability))
    if probability and has_layer_kernels(stream_ND):
        added_ND = dropout_add(stream_ND, output_ND, probability)
        next_ND = added_ND if residual.pre_norm else residual.norm(added_ND).to(added_ND.dtype)
    else:
        next_ND = residual.add(stream_ND, output_ND)
    return Stream(next_ND, next_ND)


def applies_to_memory(self: TransformerDecoder, encoded: Encoded) -> bool:
    """Whether this applies: not in training on a GPU, where padding would take part in computations."""
    return not (encoded.states.values.is_cuda and torch.is_grad_enabled())


def build_memory(self: TransformerDecoder, encoded: Encoded) -> TransformerMemory:
    """See `TransformerDecoder.build_memory`."""
    states = encoded.states
    padded_BSD = states.to_padded() if states.values.is_cuda else None
    layers = []
    for layer in self.stack.layers:
        assert layer.cross_attention is not None
        if padded_BSD is not None:
            keys_BHSD, values_BHSD = (part.transpose(1, 2) for part in layer.cross_attention.keys_values(padded_BSD))
        else:
            keys_values = layer.cross_attention.keys_values(states.values)
            keys_BHSD, values_BHSD = (states.like(part).to_padded().transpose(1, 2) for part in keys_values)
            keys_BHSD = keys_BHSD.transpose(2, 3).contiguous().transpose(2, 3)
            values_BHSD = values_BHSD.contiguous()
        layers.append(KeysValues(keys_BHSD, values_BHSD))
    return TransformerMemory(tuple(layers), self.source_mask(encoded))


def applies_to_padded(
    self: RaggedAttention,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    *,
    dropout: float = 0.0,
    normalize: Normalizer = softmax,
    recorder: AttentionRecorder | None = None,
) -> bool:
    """Whether `attend_padded` can be used."""
    return recorder is None and normalize is softmax


def attend_padded(
    self: RaggedAttention,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    *,
    dropout: float = 0.0,
    normalize: Normalizer = softmax,
    recorder: AttentionRecorder | None = None,
) -> Tensor:
    """The outputs of `RaggedAttention.attend`."""
    queries = Ragged(queries_NHD, self.queries)
    keys, values = (Ragged(repeat_heads(part, queries_NHD), self.keys) for part in (keys_NHD, values_NHD))
    queries_BHTD, keys_BHSD, values_BHSD = (part.to_padded().transpose(1, 2) for part in (queries, keys, values))
    is_causal = self.causal and self.queries is self.keys and self.bias is None
    is_full = not self.causal and self.keys.is_rectangular and self.bias is None
    mask = None if is_causal or is_full else self.mask(queries_BHTD.dtype)
    outputs_BHTD = functional.scaled_dot_product_attention(
        queries_BHTD, keys_BHSD, values_BHSD, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
    )
    return queries.from_padded(outputs_BHTD.transpose(1, 2)).values
