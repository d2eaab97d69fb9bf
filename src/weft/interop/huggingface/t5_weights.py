"""The weights of a Transformer under the names of T5 and UMT5: the inverse of t5.py.

T5 does not divide scores by √d, so queries are divided by it. With a tied output projection, T5 divides the states of
the decoder by √d; the last norm is multiplied by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import RecipeError
from weft.interop.huggingface.architectures import T5_ACTIVATIONS
from weft.recipe import ModelSettings, TransformerSettings

if TYPE_CHECKING:
    from torch import Tensor


def configuration(settings: ModelSettings) -> dict[str, Any]:
    """The entries of config.json that describe the layers."""
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(encoder, TransformerSettings) and isinstance(decoder, TransformerSettings)
    tied = settings.tie == "all"
    return {
        "d_model": settings.embedding,
        "d_kv": decoder.head_width,
        "d_ff": decoder.feed_forward,
        "num_layers": encoder.layers,
        "num_decoder_layers": decoder.layers,
        "num_heads": decoder.heads,
        "relative_attention_num_buckets": decoder.relative_buckets,
        "relative_attention_max_distance": decoder.relative_max_distance,
        "feed_forward_proj": T5_ACTIVATIONS[decoder.activation],
        "layer_norm_epsilon": decoder.norm_epsilon,
        "dropout_rate": settings.dropout,
        "tie_word_embeddings": tied,
    }


def check_biases(name: str, tensors: Mapping[str, Tensor]) -> None:
    """Fail if a bias is not zero: T5 has none."""
    for tensor_name, tensor in tensors.items():
        if tensor_name.endswith(("bias", "bias_V")) and tensor.any():
            raise RecipeError(
                f"{name}: {tensor_name} is not zero, and T5 has no biases; models with relative positions are exported "
                "to transformers only if they were imported and not trained further"
            )


def weights(settings: ModelSettings, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by their names in transformers.

    ``tensors``: weights by their names in weft, with the rows of vocabularies in the order of the export.
    """
    converted = {"shared.weight": tensors["source_embedding.weight_VE"]}
    if settings.tie == "inputs":
        converted["lm_head.weight"] = tensors["output.weight_VD"]
    for side in ("encoder", "decoder"):
        prefix = f"{side}.stack."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        for name, tensor in _stack(own, getattr(settings, side), decoder=side == "decoder"):
            converted[f"{side}.{name}.weight"] = tensor
    if settings.tie == "all":
        converted["decoder.final_layer_norm.weight"] = converted["decoder.final_layer_norm.weight"] * math.sqrt(
            settings.embedding
        )
    return converted


def _stack(own: Mapping[str, Tensor], stack: Any, *, decoder: bool) -> Iterator[tuple[str, Tensor]]:
    for number in range(stack.layers if stack.relative_per_layer else 1):
        name = f"relative_bias.{number}" if stack.relative_per_layer else "relative_bias"
        yield f"block.{number}.layer.0.SelfAttention.relative_attention_bias", own[f"{name}.weight_KH"]
    for number in range(stack.layers):
        layer, block = f"layers.{number}.", f"block.{number}.layer."
        query, key, value = own[f"{layer}self_attention.query_key_value.weight"].chunk(3)
        yield from _attention(f"{block}0.SelfAttention", (query, key, value), stack.head_width)
        yield f"{block}0.SelfAttention.o", own[f"{layer}self_attention.output.weight"]
        yield f"{block}0.layer_norm", own[f"{layer}self_attention_residual.norm.weight"]
        last = 1
        if decoder:
            query = own[f"{layer}cross_attention.query.weight"]
            key, value = own[f"{layer}cross_attention.key_value.weight"].chunk(2)
            yield from _attention(f"{block}1.EncDecAttention", (query, key, value), stack.head_width)
            yield f"{block}1.EncDecAttention.o", own[f"{layer}cross_attention.output.weight"]
            yield f"{block}1.layer_norm", own[f"{layer}cross_attention_residual.norm.weight"]
            last = 2
        enter = own[f"{layer}feed_forward.linear1.weight"]
        names = ("wi_0", "wi_1") if stack.gated else ("wi",)
        for name, part in zip(names, enter.chunk(len(names)), strict=True):
            yield f"{block}{last}.DenseReluDense.{name}", part
        yield f"{block}{last}.DenseReluDense.wo", own[f"{layer}feed_forward.linear2.weight"]
        yield f"{block}{last}.layer_norm", own[f"{layer}feed_forward_residual.norm.weight"]
    yield "final_layer_norm", own["final_norm.weight"]


def _attention(name: str, parts: tuple[Tensor, Tensor, Tensor], head_width: int) -> Iterator[tuple[str, Tensor]]:
    query, key, value = parts
    yield f"{name}.q", query / math.sqrt(head_width)
    yield f"{name}.k", key
    yield f"{name}.v", value
