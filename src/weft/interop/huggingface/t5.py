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
from weft.interop.layer_names import LayerNames, StackReader

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


def layer_names(side: str, *, gated: bool) -> LayerNames:
    """The names of the parts of a block, whose sub-layers are numbered."""
    last = f"{2 if side == 'decoder' else 1}."
    network = f"{last}DenseReluDense."
    return LayerNames(
        self_attention="0.SelfAttention.",
        self_attention_norm="0.layer_norm",
        cross_attention="1.EncDecAttention.",
        cross_attention_norm="1.layer_norm",
        projections=("q", "k", "v", "o"),
        feed_forward=tuple(f"{network}{name}" for name in (("wi_0", "wo", "wi_1") if gated else ("wi", "wo"))),
        feed_forward_norm=f"{last}layer_norm",
    )


class _Stack(StackReader):
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
        names = layer_names(side, gated=self.activation in GATED.values())
        super().__init__(side, self.settings(config.share("dropout_rate", 0.1)), names)

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
        layers = [f"block.{number}.layer." for number in range(self.layers)]
        return tensors | self.read(layers, "final_layer_norm")

    def _take(self, name: str, *shape: int) -> Tensor:
        return self.weights.take(f"{self.side}.{name}.weight", *shape)

    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        """A map with a bias of zeros; that of the queries is multiplied by √d."""
        weight = self._take(name, outputs, inputs)
        weight = weight * math.sqrt(self.head_width) if name.endswith("Attention.q") else weight
        return {"weight": weight, "bias": torch.zeros(outputs)}

    def norm(self, name: str) -> dict[str, Tensor]:
        return {"weight": self._take(name, self.width)}
