"""The layers of a Transformer under the names of other toolkits: one table of names, for reading and for writing.

Toolkits differ in the names of the parts, and in how a linear map and a norm are stored; the parts are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class LayerNames(NamedTuple):
    """The names of the parts of a layer, behind the name of the layer."""

    self_attention: str
    self_attention_norm: str
    cross_attention: str
    cross_attention_norm: str
    projections: tuple[str, str, str, str]
    """Projections of an attention: query, key, value, output."""
    feed_forward: tuple[str, ...]
    """The first and the second map; of a gated network, also the one without activation."""
    feed_forward_norm: str

    def parts(self, side: str) -> dict[str, tuple[str, ...]]:
        """Each part of a layer of a `TransformerStack`, with the originals that are joined in it, in their order."""
        query, key, value, output = (f"{self.self_attention}{projection}" for projection in self.projections)
        parts: dict[str, tuple[str, ...]] = {
            "self_attention.query_key_value": (query, key, value),
            "self_attention.output": (output,),
            "self_attention_residual.norm": (self.self_attention_norm,),
        }
        if side == "decoder":
            query, key, value, output = (f"{self.cross_attention}{projection}" for projection in self.projections)
            parts |= {
                "cross_attention.query": (query,),
                "cross_attention.key_value": (key, value),
                "cross_attention.output": (output,),
                "cross_attention_residual.norm": (self.cross_attention_norm,),
            }
        first, second, *gated = self.feed_forward
        parts |= {"feed_forward.linear1": (first, *gated), "feed_forward.linear2": (second,)}
        return parts | {"feed_forward_residual.norm": (self.feed_forward_norm,)}


FAIRSEQ = LayerNames(
    self_attention="self_attn.",
    self_attention_norm="self_attn_layer_norm",
    cross_attention="encoder_attn.",
    cross_attention_norm="encoder_attn_layer_norm",
    projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    feed_forward=("fc1", "fc2"),
    feed_forward_norm="final_layer_norm",
)
"""The names of fairseq, and of the models of Hugging Face that come from it: BART and those built like it."""


class StackReader(ABC):
    """Reads the layers of the encoder or decoder."""

    def __init__(self, side: str, settings: Mapping[str, Any], names: LayerNames) -> None:
        """``settings``: recipe settings of the stack."""
        self.side, self.names = side, names
        self.width = int(settings["hidden"])
        self.has_final_norm = settings.get("norm_placement", "pre") == "pre"
        width, inner, heads = self.width, int(settings["feed_forward"]), int(settings["heads"])
        queries = heads * int(settings.get("head_size", 0)) or width
        keys = width // heads * int(settings.get("key_value_heads", 0)) or queries
        self.shapes = {
            "self_attention.query_key_value": [(queries, width), (keys, width), (keys, width)],
            "cross_attention.query": [(queries, width)],
            "cross_attention.key_value": [(keys, width), (keys, width)],
            "self_attention.output": [(width, queries)],
            "cross_attention.output": [(width, queries)],
            "feed_forward.linear1": [(inner, width), (inner, width)],
            "feed_forward.linear2": [(width, inner)],
        }
        """The outputs and inputs of the originals of each part; the second ``linear1`` is that of a gated network."""

    @abstractmethod
    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        """A linear map: its weight and bias."""

    @abstractmethod
    def norm(self, name: str) -> dict[str, Tensor]:
        """A norm: its weight and, if it has one, its bias."""

    def read(self, layers: Sequence[str], final_norm: str) -> dict[str, Tensor]:
        """The layers and the final norm, by the names of a `TransformerStack`. ``layers``: the name of each layer."""
        read: dict[str, Tensor] = {}
        for number, layer in enumerate(layers):
            for own, originals in self.names.parts(self.side).items():
                part = self._part(own, [f"{layer}{original}" for original in originals])
                read |= {f"layers.{number}.{own}.{name}": tensor for name, tensor in part.items()}
        if self.has_final_norm:
            read |= {f"final_norm.{name}": tensor for name, tensor in self.norm(final_norm).items()}
        return read

    def _part(self, own: str, originals: Sequence[str]) -> dict[str, Tensor]:
        """A norm, or linear maps in one matrix, one below the other."""
        if own not in self.shapes:
            return self.norm(originals[0])
        linears = [self.linear(name, *shape) for name, shape in zip(originals, self.shapes[own], strict=False)]
        return {name: torch.cat([linear[name] for linear in linears]) for name in linears[0]}


def write_layers(
    side: str, own: Mapping[str, Tensor], layers: Sequence[str], names: LayerNames
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The inverse of `StackReader.read`: linear maps and norms by their original names, each its weight and bias."""
    for number, layer in enumerate(layers):
        for part, originals in names.parts(side).items():
            stored = {name: own.get(f"layers.{number}.{part}.{name}") for name in ("weight", "bias")}
            chunks = {name: joined.chunk(len(originals)) for name, joined in stored.items() if joined is not None}
            for index, original in enumerate(originals):
                yield f"{layer}{original}", {name: tensors[index] for name, tensors in chunks.items()}
