"""Search steps of a Transformer for few rows on a GPU, such as those of one sentence.

Plain counterpart: the loop over layers of `weft.fast.steps.cached_transformer.cached_step`, which does the same with
one kernel for each norm, product, activation and addition. Tested in tests/fast/steps/test_few_rows_transformer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weft.attention.multihead import CrossAttention, StepKeysValues
from weft.attention.relative_positions import Rotation
from weft.fast.steps.cached_transformer import rotate_projected
from weft.fast.steps.kv_cache import KVCache, attention_output
from weft.fast.triton.small_linear import MAX_ROWS, small_linear
from weft.models.transformer import ACTIVATIONS, TransformerLayer, TransformerStack

DTYPES = (torch.bfloat16, torch.float16)


def is_small(stack: TransformerStack, stream_RD: Tensor) -> bool:
    """Whether the rows are few enough, and the layers of a kind, that this module can step them."""
    return len(stream_RD) <= MAX_ROWS and stream_RD.dtype in DTYPES and all(map(_is_plain, stack.layers))


def _is_plain(layer: TransformerLayer) -> bool:
    """A pre-norm layer with a feed-forward network, and cross-attention to one source or none, in one precision."""
    cross = layer.cross_attention
    if not (cross is None or type(cross) is CrossAttention) or layer.feed_forward is None:
        return False
    residuals = [layer.self_attention_residual, layer.feed_forward_residual]
    residuals += [] if cross is None else [layer.cross_attention_residual]
    norms = all(one.pre_norm and isinstance(one.norm, nn.LayerNorm | nn.RMSNorm) for one in residuals)
    return norms and all(
        type(linear) is nn.Linear and linear.weight.dtype in DTYPES and linear.weight.is_contiguous()
        for linear in _linears(layer)
    )


def _linears(layer: TransformerLayer) -> list[nn.Module]:
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert network is not None
    of_cross = [] if cross is None else [cross.query, cross.output]
    return [own.query_key_value, own.output, *of_cross, network.linear1, network.linear2]


def small_layers(
    stack: TransformerStack,
    stream_RD: Tensor,
    cache: KVCache,
    rotation: Rotation | None,
    biases: Sequence[Tensor | None],
    source: Sequence[StepKeysValues | None],
) -> Tensor:
    """The stream after all layers, before the final norm."""
    for number, (layer, keys_values) in enumerate(zip(stack.layers, source, strict=True)):
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        assert network is not None
        prefix = keys_values if cross is None else None
        projected = small_linear(stream_RD, own.query_key_value, norm=layer.self_attention_residual.norm)
        projected_RHD = rotate_projected(own, own.split_heads(projected), rotation)
        attended = cache.step(number, projected_RHD, biases[number], own.normalize, prefix).flatten(1)
        stream_RD = small_linear(attended, own.output, residual_RE=stream_RD)
        if cross is not None and keys_values is not None:
            queries = small_linear(stream_RD, cross.query, norm=layer.cross_attention_residual.norm)
            attended = attention_output(cross.split_heads(queries), keys_values, cross.normalize).flatten(1)
            stream_RD = small_linear(attended, cross.output, residual_RE=stream_RD)
        is_relu = network.activation is ACTIVATIONS["relu"]
        hidden = small_linear(stream_RD, network.linear1, norm=layer.feed_forward_residual.norm, relu=is_relu)
        hidden = hidden if is_relu else network.activation(hidden)
        stream_RD = small_linear(hidden, network.linear2, residual_RE=stream_RD)
    return stream_RD
