"""The tensors of a checkpoint. Each is taken by its name; `check_all_taken` fails if one has no place in the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft.errors import CheckpointError
from weft.interop.layer_names import LayerNames, StackReader


class CheckpointTensors:
    """The tensors by name."""

    def __init__(self, values: Any, where: str) -> None:
        """``values``: a state dictionary; ``where``: the name of the file, for messages."""
        if not isinstance(values, Mapping) or not all(isinstance(value, Tensor) for value in values.values()):
            raise CheckpointError(f"{where}: damaged: its model is not a dictionary of tensors")
        self.where = where
        self._values: dict[str, Tensor] = dict(values)
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def rows(self, name: str) -> int:
        """The first axis of a matrix."""
        return int(self._tensor(name).shape[0]) if self._tensor(name).dim() else 0

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in single precision; it must have this shape."""
        tensor = self._tensor(name)
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{self.where}: tensor {name!r} is {tuple(tensor.shape)}, but the options say {shape}; are they of "
                "one model?"
            )
        if not tensor.is_floating_point() or tensor.layout is not torch.strided:
            raise CheckpointError(f"{self.where}: tensor {name!r} does not hold floating-point numbers")
        self._taken.add(name)
        return tensor.detach().float().clone()  # not a view of a file

    def take_or_zeros(self, name: str, *shape: int) -> Tensor:
        """A bias that some models do not have."""
        return self.take(name, *shape) if name in self else torch.zeros(*shape)

    def ignore(self, *names: str) -> None:
        """Leave out tensors that are not weights."""
        self._taken.update(names)

    def _tensor(self, name: str) -> Tensor:
        if name not in self._values:
            raise CheckpointError(f"{self.where}: lacks tensor {name!r}, which its options call for")
        return self._values[name]

    def check_all_taken(self) -> None:
        """Fail if there are tensors that were not used."""
        if unused := sorted(self._values.keys() - self._taken):
            more = f" (one of {len(unused)})" if len(unused) > 1 else ""
            raise CheckpointError(f"{self.where}: tensor {unused[0]!r}{more} has no place in the model of its options")


def stack_tensors(
    side: str, tensors: CheckpointTensors, settings: Mapping[str, Any], layer: str, names: LayerNames
) -> dict[str, Tensor]:
    """The layers and the final norm of the encoder or decoder, by the names of a `TransformerStack`.

    ``settings``: recipe settings of the stack; ``layer``: the name of a layer, with a placeholder for its number.
    """
    layers = [layer.format(number) for number in range(int(settings["layers"]))]
    return _Stack(side, tensors, settings, names).read(layers, f"{side}.layer_norm")


class _Stack(StackReader):
    def __init__(self, side: str, tensors: CheckpointTensors, settings: Mapping[str, Any], names: LayerNames) -> None:
        super().__init__(side, settings, names)
        self.tensors = tensors
        self.norm_parts = ("weight",) if settings.get("norm") == "rms" else ("weight", "bias")

    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        """A map; without a bias, one of zeros."""
        weight = self.tensors.take(f"{name}.weight", outputs, inputs)
        return {"weight": weight, "bias": self.tensors.take_or_zeros(f"{name}.bias", outputs)}

    def norm(self, name: str) -> dict[str, Tensor]:
        return {part: self.tensors.take(f"{name}.{part}", self.width) for part in self.norm_parts}
