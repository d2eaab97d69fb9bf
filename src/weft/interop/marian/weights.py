"""The `.npz` of a model: tensors by name, and the options of the model as YAML under ``special:model.yml``.

It is read with numpy and without pickle. Marian multiplies rows by matrices, x W; torch has W x: `take_matrix`
transposes. Vectors have a first axis of size 1.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import Configuration
from weft.interop.yaml_files import parse_yaml
from weft.runtime.devices import check_weights_memory

if TYPE_CHECKING:
    from torch import Tensor

OPTIONS = "special:model.yml"


class MarianWeights:
    """The tensors of a file; `check_all_taken` fails if one has no place in the model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                sizes = [entry.file_size for entry in archive.infolist()]
            check_weights_memory(str(path), sum(sizes))
            with np.load(path, allow_pickle=False) as file:
                self._arrays: dict[str, np.ndarray] = {name: file[name] for name in file.files}
        except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: damaged, incomplete, or not a model of Marian ({reason})") from None
        if OPTIONS not in self._arrays:
            raise CheckpointError(f"{path}: has no {OPTIONS}, the options of the model; is it a model of Marian?")
        content = self._arrays[OPTIONS].tobytes().rstrip(b"\0")
        where = f"{path} ({OPTIONS})"
        self.options = Configuration(parse_yaml(content, where=where), where)
        self._taken = {OPTIONS}

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def rows(self, name: str) -> int:
        """The first axis of a matrix."""
        return int(self._array(name).shape[0])

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in single precision, as it is stored; it must have this shape."""
        import torch

        array = self._array(name)
        if array.shape != shape:
            raise CheckpointError(
                f"{self.path}: tensor {name!r} is {array.shape}, but the options say {shape}; is the file damaged?"
            )
        if array.dtype.kind != "f":
            raise CheckpointError(f"{self.path}: tensor {name!r} is {array.dtype}, expected floating-point numbers")
        self._taken.add(name)
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))  # a copy: one may be taken twice

    def take_matrix(self, name: str, inputs: int, outputs: int) -> Tensor:
        """A projection, as torch has it: (outputs, inputs)."""
        return self.take(name, inputs, outputs).T.contiguous()

    def take_vector(self, name: str, size: int) -> Tensor:
        shape = self._array(name).shape
        return self.take(name, *((size,) if len(shape) == 1 else (1, size))).reshape(size)

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise CheckpointError(f"{self.path}: lacks tensor {name!r}, which its options call for")
        return self._arrays[name]

    def check_all_taken(self) -> None:
        """Fail if there are tensors that were not used."""
        unused = sorted(name for name in self._arrays.keys() - self._taken if not name.startswith("special:"))
        if unused:
            more = f" (one of {len(unused)})" if len(unused) > 1 else ""
            raise CheckpointError(f"{self.path}: tensor {unused[0]!r}{more} has no place in the model of its options")
