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
from weft.interop.huggingface.t5 import layer_names
from weft.interop.layer_names import write_layers
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
        for name, tensor in _stack(side, own, getattr(settings, side)):
            converted[f"{side}.{name}.weight"] = tensor
    if settings.tie == "all":
        converted["decoder.final_layer_norm.weight"] = converted["decoder.final_layer_norm.weight"] * math.sqrt(
            settings.embedding
        )
    return converted


def _stack(side: str, own: Mapping[str, Tensor], stack: Any) -> Iterator[tuple[str, Tensor]]:
    for number in range(stack.layers if stack.relative_per_layer else 1):
        name = f"relative_bias.{number}" if stack.relative_per_layer else "relative_bias"
        yield f"block.{number}.layer.0.SelfAttention.relative_attention_bias", own[f"{name}.weight_KH"]
    layers = [f"block.{number}.layer." for number in range(stack.layers)]
    for name, parts in write_layers(side, own, layers, layer_names(side, gated=stack.gated)):
        is_query = name.endswith("Attention.q")
        yield name, parts["weight"] / math.sqrt(stack.head_width) if is_query else parts["weight"]
    yield "final_layer_norm", own["final_norm.weight"]
