"""T5 and its relatives: T5 1.1, FLAN-T5, ByT5, mT5 and UMT5.

They have RMSNorm before each sub-layer, relative positions, no biases, and scores q·k that are not divided by √d. Here
biases are zero and √d is multiplied into the queries. Outputs of the original T5 are scaled by 1/√d before the last
projection; that factor is multiplied into the last norm.

Whether outputs are scaled is not a matter of whether the projection is tied: T5 says so with ``scale_decoder_outputs``,
and before that with ``tie_word_embeddings``; UMT5 with the latter; mT5 never scales them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from weft.interop.embeddings import EmbeddingNames, read_embeddings
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.folder import Weights
from weft.interop.imported_run import Conversion

if TYPE_CHECKING:
    from torch import Tensor

VARIANTS = ("t5", "mt5", "umt5")
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""A tensor of old files that no version of the model reads."""
GATED = {"gelu": "geglu_tanh", "gelu_new": "geglu_tanh", "silu": "swiglu"}
"""Gated activations: in T5, gated-gelu means the tanh form."""


def convert(kind: str, config: Configuration, weights: Weights) -> Conversion:
    """The settings and the weights of a model."""
    weights.ignore(UNUSED)
    width, size = config.whole("d_model"), config.whole("vocab_size")
    names = EmbeddingNames(
        ("encoder.embed_tokens.weight", "shared.weight"),
        ("decoder.embed_tokens.weight", "shared.weight"),
        ("lm_head.weight",),
    )
    if "lm_head.weight" not in weights:
        names = names._replace(output=names.target)
    embeddings = read_embeddings(weights, names, sizes=(size, size), width=width)
    tensors = {**embeddings.tensors, "output.bias_V": torch.zeros(size)}
    dropout = config.share("dropout_rate", 0.1)
    model: dict[str, Any] = {"embedding": width, "tie": embeddings.tie, "dropout": dropout}
    for side in ("encoder", "decoder"):
        reader = _Stack(kind, side, config, weights)
        model[side] = reader.settings(dropout)
        tensors |= {f"{side}.stack.{name}": tensor for name, tensor in reader.tensors().items()}
    if scales_outputs(kind, config):
        tensors["decoder.stack.final_norm.weight"] *= width**-0.5
    return Conversion(model, tensors, (size, size))


def scales_outputs(kind: str, config: Configuration) -> bool:
    """Whether the states of the decoder are divided by √d before the output projection."""
    if kind == "mt5":
        return False
    tied = config.flag("tie_word_embeddings", True)
    return config.flag("scale_decoder_outputs", tied) if kind == "t5" else tied


class _Stack:
    """The encoder or the decoder."""

    def __init__(self, kind: str, side: str, config: Configuration, weights: Weights) -> None:
        self.side, self.config, self.weights = side, config, weights
        self.per_layer = kind == "umt5"
        self.width, self.inner = config.whole("d_model"), config.whole("d_ff")
        self.heads, self.head_width = config.whole("num_heads"), config.whole("d_kv")
        layers = config.whole("num_layers")
        self.layers = layers if side == "encoder" else config.whole("num_decoder_layers", layers)
        self.buckets = config.whole("relative_attention_num_buckets", 32)
        self.activation = self._activation()

    def _activation(self) -> str:
        given = self.config.values.get("feed_forward_proj") or "relu"
        gate, _, name = str(given).rpartition("-")
        if gate not in ("", "gated") or (gate and name not in GATED):
            known = ", ".join(f"gated-{activation}" for activation in GATED)
            raise self.config.error("feed_forward_proj", f"{given!r} is not known; weft has relu, gelu, silu, {known}")
        return GATED[name] if gate else self.config.activation("feed_forward_proj", name)

    def settings(self, dropout: float) -> dict[str, Any]:
        """[model.encoder] or [model.decoder]."""
        return {
            "kind": "transformer",
            "layers": self.layers,
            "hidden": self.width,
            "heads": self.heads,
            "head_size": 0 if self.heads * self.head_width == self.width else self.head_width,
            "feed_forward": self.inner,
            "activation": self.activation,
            "norm": "rms",
            "norm_epsilon": self.config.number("layer_norm_epsilon", 1e-6),
            "positions": "relative",
            "relative_buckets": self.buckets,
            "relative_max_distance": self.config.whole("relative_attention_max_distance", 128),
            "relative_per_layer": self.per_layer,
            "scale_embedding": False,
            "attention_dropout": dropout,
            "activation_dropout": dropout,
        }

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by the names of a `TransformerStack`."""
        tensors: dict[str, Tensor] = {}
        for number in range(self.layers if self.per_layer else 1):
            name = f"relative_bias.{number}" if self.per_layer else "relative_bias"
            tensors[f"{name}.weight_KH"] = self._take(
                f"block.{number}.layer.0.SelfAttention.relative_attention_bias", self.buckets, self.heads
            )
        for number in range(self.layers):
            original, own = f"block.{number}.layer.", f"layers.{number}."
            tensors |= self._attention(f"{original}0.SelfAttention", f"{own}self_attention", cross=False)
            tensors[f"{own}self_attention_residual.norm.weight"] = self._take(f"{original}0.layer_norm", self.width)
            last = 1
            if self.side == "decoder":
                tensors |= self._attention(f"{original}1.EncDecAttention", f"{own}cross_attention", cross=True)
                tensors[f"{own}cross_attention_residual.norm.weight"] = self._take(
                    f"{original}1.layer_norm", self.width
                )
                last = 2
            tensors |= self._feed_forward(f"{original}{last}.DenseReluDense", f"{own}feed_forward")
            tensors[f"{own}feed_forward_residual.norm.weight"] = self._take(f"{original}{last}.layer_norm", self.width)
        tensors["final_norm.weight"] = self._take("final_layer_norm", self.width)
        return tensors

    def _take(self, name: str, *shape: int) -> Tensor:
        return self.weights.take(f"{self.side}.{name}.weight", *shape)

    def _attention(self, original: str, own: str, *, cross: bool) -> dict[str, Tensor]:
        total = self.heads * self.head_width
        query, key, value = (self._take(f"{original}.{name}", total, self.width) for name in "qkv")
        query = query * math.sqrt(self.head_width)
        parts = {"query": query, "key_value": torch.cat([key, value])}
        parts = parts if cross else {"query_key_value": torch.cat([query, key, value])}
        parts["output"] = self._take(f"{original}.o", self.width, total)
        return _without_biases({f"{own}.{name}": weight for name, weight in parts.items()})

    def _feed_forward(self, original: str, own: str) -> dict[str, Tensor]:
        names = ("wi_0", "wi_1") if self.activation in GATED.values() else ("wi",)
        enter = torch.cat([self._take(f"{original}.{name}", self.inner, self.width) for name in names])
        leave = self._take(f"{original}.wo", self.width, self.inner)
        return _without_biases({f"{own}.linear1": enter, f"{own}.linear2": leave})


def _without_biases(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Linear maps whose biases are zero."""
    biases = {f"{name}.bias": torch.zeros(len(weight)) for name, weight in weights.items()}
    return {f"{name}.weight": weight for name, weight in weights.items()} | biases
