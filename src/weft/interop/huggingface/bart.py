"""Models that are built like BART: Marian, M2M100, mBART and Pegasus differ in norms and positions.

BART       post-norm; a norm of the embeddings; learned positions from row 2 of their table on
Marian     post-norm; sinusoids, sines before cosines
mBART      pre-norm; a norm of the embeddings; learned positions from row 2 on
Pegasus    pre-norm; sinusoids, sines before cosines
M2M100     pre-norm; sinusoids of Tensor2Tensor, whose first position is that of the padding token plus 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weft.interop.embeddings import EmbeddingNames, read_embeddings
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.folder import Weights
from weft.interop.imported_run import Conversion
from weft.interop.layer_names import FAIRSEQ, StackReader
from weft.models.positions import sinusoids

if TYPE_CHECKING:
    from torch import Tensor

SKIPPED_POSITIONS = 2
"""Rows of a table of learned positions before that of the first position."""
TABLE_TOLERANCE = 1e-3
"""The largest difference between a half-precision table and the sinusoids."""


class Variant(NamedTuple):
    """Properties that distinguish a model type."""

    norm_placement: str
    embedding_norm: bool
    positions: str
    """learned, or the layout of sinusoids."""


VARIANTS = {
    "bart": Variant("post", True, "learned"),
    "marian": Variant("post", False, "halves"),
    "mbart": Variant("pre", True, "learned"),
    "pegasus": Variant("pre", False, "halves"),
    "m2m_100": Variant("pre", False, "tensor2tensor"),
}


def convert(kind: str, config: Configuration, weights: Weights) -> Conversion:
    """The settings and the weights of a model."""
    variant, width = VARIANTS[kind], config.whole("d_model")
    prefix = "model." if any(name.startswith("model.") for name in weights.names) else ""  # none: saved without a head
    weights.ignore(f"{prefix}encoder.version", f"{prefix}decoder.version")
    sizes = config.whole("vocab_size"), config.whole("vocab_size")
    shared: tuple[str, ...] = (f"{prefix}shared.weight",)
    if kind == "marian" and not config.flag("share_encoder_decoder_embeddings", True):
        sizes, shared = (sizes[0], config.whole("decoder_vocab_size", sizes[1])), ()
    targets = (f"{prefix}decoder.embed_tokens.weight", *shared)
    names = EmbeddingNames((f"{prefix}encoder.embed_tokens.weight", *shared), targets, ("lm_head.weight",))
    if "lm_head.weight" not in weights:
        names = names._replace(output=targets)
    embeddings = read_embeddings(weights, names, sizes=sizes, width=width)
    tensors = dict(embeddings.tensors)
    if "final_logits_bias" in weights:
        tensors["output.bias_V"] = weights.take("final_logits_bias", 1, sizes[1])[0]
    else:
        tensors["output.bias_V"] = torch.zeros(sizes[1])
    model: dict[str, Any] = {"embedding": width, "tie": embeddings.tie, "dropout": config.share("dropout", 0.1)}
    for side in ("encoder", "decoder"):
        reader = _Stack(side, f"{prefix}{side}.", variant, config, weights)
        model[side] = reader.settings()
        tensors |= {f"{side}.stack.{name}": tensor for name, tensor in reader.tensors().items()}
    return Conversion(model, tensors, sizes)


class _Stack(StackReader):
    """The encoder or the decoder."""

    def __init__(self, side: str, prefix: str, variant: Variant, config: Configuration, weights: Weights) -> None:
        self.side, self.prefix, self.variant = side, prefix, variant
        self.config, self.weights = config, weights
        self.width = config.whole("d_model")
        self.inner = config.whole(f"{side}_ffn_dim")
        self.layers = config.whole(f"{side}_layers")
        self.table = self._position_table()
        super().__init__(side, self.settings(), FAIRSEQ)

    def settings(self) -> dict[str, Any]:
        """[model.encoder] or [model.decoder]."""
        config, variant = self.config, self.variant
        positions: dict[str, Any] = {"positions": "sinusoidal", "sinusoids": variant.positions}
        if self.table is not None:
            positions = {"positions": "learned", "max_positions": len(self.table)}
        elif variant.positions == "tensor2tensor":
            positions["first_position"] = config.whole("pad_token_id", 1, least=0) + 1
        return {
            "kind": "transformer",
            "layers": self.layers,
            "hidden": self.width,
            "heads": config.whole(f"{self.side}_attention_heads"),
            "feed_forward": self.inner,
            "activation": config.activation("activation_function"),
            "norm_placement": variant.norm_placement,
            "embedding_norm": variant.embedding_norm,
            "scale_embedding": config.flag("scale_embedding", False),
            "attention_dropout": config.share("attention_dropout", 0.0),
            "activation_dropout": config.share("activation_dropout", 0.0),
            **positions,
        }

    def _position_table(self) -> Tensor | None:
        """Learned positions, or sinusoids that are not those of the variant; None: sinusoids that need no table."""
        name, variant = f"{self.prefix}embed_positions.weight", self.variant
        count = self.config.whole("max_position_embeddings")
        if variant.positions == "learned":
            return self.weights.take(name, count + SKIPPED_POSITIONS, self.width)[SKIPPED_POSITIONS:]
        if variant.positions == "tensor2tensor":
            self.weights.ignore(f"{self.prefix}embed_positions.weights", name)
            return None
        if name not in self.weights:
            return None
        table_PD = self.weights.take(name, count, self.width)
        expected_PD = sinusoids(count, self.width, layout=variant.positions).float()
        return None if torch.allclose(table_PD, expected_PD, rtol=0, atol=TABLE_TOLERANCE) else table_PD

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by the names of a `TransformerStack`."""
        tensors: dict[str, Tensor] = {}
        if self.table is not None:
            tensors["positions.weight_PD"] = self.table
        if self.variant.embedding_norm:
            norm = self.norm(f"{self.prefix}layernorm_embedding")
            tensors |= {f"embedding_norm.{part}": tensor for part, tensor in norm.items()}
        layers = [f"{self.prefix}layers.{number}." for number in range(self.layers)]
        return tensors | self.read(layers, f"{self.prefix}layer_norm")

    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        weight = self.weights.take(f"{name}.weight", outputs, inputs)
        return {"weight": weight, "bias": self.weights.take(f"{name}.bias", outputs)}

    def norm(self, name: str) -> dict[str, Tensor]:
        return {part: self.weights.take(f"{name}.{part}", self.width) for part in ("weight", "bias")}
