"""The weights of Transformer stacks. Toolkits differ in the names of the parts; the parts are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.interop.checkpoints.tensors import CheckpointTensors


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


def stack_tensors(
    side: str, tensors: CheckpointTensors, settings: Mapping[str, Any], layer: str, names: LayerNames
) -> dict[str, Tensor]:
    """The layers and the final norm of the encoder or decoder, by the names of a `TransformerStack`.

    ``settings``: recipe settings of the stack; ``layer``: the name of a layer, with a placeholder for its number.
    """
    return _Stack(side, tensors, settings, names).read(layer)


class _Stack:
    def __init__(self, side: str, tensors: CheckpointTensors, settings: Mapping[str, Any], names: LayerNames) -> None:
        self.side, self.tensors, self.names, self.settings = side, tensors, names, settings
        self.width, self.inner = int(settings["hidden"]), int(settings["feed_forward"])
        heads = int(settings["heads"])
        self.key_width = self.width // heads * (int(settings.get("key_value_heads", 0)) or heads)

    def read(self, layer: str) -> dict[str, Tensor]:
        read: dict[str, Tensor] = {}
        names, widths = self.names, {"query": self.width, "key": self.key_width, "value": self.key_width}
        for number in range(int(self.settings["layers"])):
            original, own = layer.format(number), f"layers.{number}"
            attention = f"{original}{names.self_attention}"
            read |= self._attention(attention, widths, f"{own}.self_attention.query_key_value")
            read |= self._output(attention, f"{own}.self_attention.output")
            read |= self.norm(f"{original}{names.self_attention_norm}", f"{own}.self_attention_residual.norm")
            if self.side == "decoder":
                attention = f"{original}{names.cross_attention}"
                keys = {"key": self.key_width, "value": self.key_width}
                read |= self._attention(attention, {"query": self.width}, f"{own}.cross_attention.query")
                read |= self._attention(attention, keys, f"{own}.cross_attention.key_value")
                read |= self._output(attention, f"{own}.cross_attention.output")
                read |= self.norm(f"{original}{names.cross_attention_norm}", f"{own}.cross_attention_residual.norm")
            read |= self._feed_forward(original, f"{own}.feed_forward")
            read |= self.norm(f"{original}{names.feed_forward_norm}", f"{own}.feed_forward_residual.norm")
        if self.settings["norm_placement"] == "pre":
            read |= self.norm(f"{self.side}.layer_norm", "final_norm")
        return read

    def norm(self, original: str, own: str) -> dict[str, Tensor]:
        parts = ("weight",) if self.settings.get("norm") == "rms" else ("weight", "bias")
        return {f"{own}.{part}": self.tensors.take(f"{original}.{part}", self.width) for part in parts}

    def _attention(self, attention: str, widths: Mapping[str, int], own: str) -> dict[str, Tensor]:
        """Several projections in one matrix, one below the other."""
        names = dict(zip(("query", "key", "value"), self.names.projections, strict=False))
        parts = [self._linear(f"{attention}{names[role]}", width, self.width) for role, width in widths.items()]
        return {f"{own}.{part}": torch.cat([linear[part] for linear in parts]) for part in ("weight", "bias")}

    def _output(self, attention: str, own: str) -> dict[str, Tensor]:
        linear = self._linear(f"{attention}{self.names.projections[3]}", self.width, self.width)
        return {f"{own}.{part}": tensor for part, tensor in linear.items()}

    def _feed_forward(self, layer: str, own: str) -> dict[str, Tensor]:
        first, second, *gated = self.names.feed_forward
        inputs = [self._linear(f"{layer}{name}", self.inner, self.width) for name in (first, *gated)]
        output = self._linear(f"{layer}{second}", self.width, self.inner)
        joined = {part: torch.cat([linear[part] for linear in inputs]) for part in output}
        named = {"linear1": joined, "linear2": output}
        return {f"{own}.{name}.{part}": linear[part] for name, linear in named.items() for part in linear}

    def _linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        """A map; without a bias, one of zeros."""
        weight = self.tensors.take(f"{name}.weight", outputs, inputs)
        return {"weight": weight, "bias": self.tensors.take_or_zeros(f"{name}.bias", outputs)}
