"""The files of a model folder: config.json, generation_config.json and safetensors, whole or in shards.

Nothing in a folder is executed: there is no pickle and no custom code, and a shard that an index names is a file of
the folder itself. Torch is imported when the first tensor is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from weft.errors import CheckpointError
from weft.files import read_json
from weft.interop.huggingface.configuration import Configuration
from weft.runs.weights import check_header_size
from weft.runtime.devices import check_weights_memory

if TYPE_CHECKING:
    from torch import Tensor

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
"""Weights in formats that are not read: pickles can run code, the others are of other frameworks."""


class ModelFolder:
    """A folder with a model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise CheckpointError(f"{path}: no such folder")
        self.config = Configuration(self._json("config.json"), str(path / "config.json"))
        has_generation = (path / "generation_config.json").exists()
        self.generation: dict[str, Any] = self._json("generation_config.json") if has_generation else {}

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            content = read_json(path)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: missing; a model folder of Hugging Face has one") from None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: expected an object of names and values")
        return content

    def weight_files(self) -> list[Path]:
        """The safetensors files with the weights."""
        whole = self.path / WHOLE
        if whole.exists():
            return [whole]
        if (self.path / INDEX).exists():
            return self._shards()
        pickles = sorted(path.name for pattern in PICKLES for path in self.path.glob(pattern))
        if pickles:
            raise CheckpointError(
                f"{self.path / pickles[0]}: not read: a pickle can run code, and weft reads safetensors only; convert "
                "it where you trust it: AutoModelForSeq2SeqLM.from_pretrained(FOLDER).save_pretrained(OUT)"
            )
        raise CheckpointError(f"{whole}: missing; weft reads weights in safetensors")

    def _shards(self) -> list[Path]:
        index = self.path / INDEX
        shards = self._json(INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            raise CheckpointError(f"{index}: damaged; it has no weight_map of tensors and files")
        names = sorted({*shards.values()})
        for name in names:
            if not re.fullmatch(r"\w[\w.-]*\.safetensors", name):
                raise CheckpointError(f"{index}: names the file {name!r}; expected safetensors files of this folder")
            if not (self.path / name).exists():
                raise CheckpointError(f"{self.path / name}: missing; {index} names it")
        if not names:
            raise CheckpointError(f"{index}: names no file")
        return [self.path / name for name in names]

    def open_weights(self) -> Weights:
        """The weights; close them, or use them as a context."""
        return Weights(self.path, self.weight_files())


class Weights:
    """The tensors of a folder. Each is read once, by `take`; `check_all_taken` fails if one has no place."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.folder = folder
        self.where = str(folder)
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self._taken: set[str] = set()
        check_weights_memory(str(folder), sum(path.stat().st_size for path in files))
        try:
            for path in files:
                for name, file in self._open(path):
                    if name in self._files:
                        raise CheckpointError(f"{path}: tensor {name!r} is in another file too")
                    self._files[name] = file
        except BaseException:
            self._stack.close()
            raise

    def _open(self, path: Path) -> Iterator[tuple[str, Any]]:
        try:
            check_header_size(path)
            file = self._stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{path}: damaged or incomplete ({reason}); download it again") from None
        yield from ((name, file) for name in file.keys())  # noqa: SIM118

    def __enter__(self) -> Weights:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __contains__(self, name: str) -> bool:
        return name in self._files

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        self._check(name)
        return tuple(self._files[name].get_slice(name).get_shape())

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in single precision; it must have this shape."""
        given = self.shape(name)
        if given != shape:
            raise CheckpointError(
                f"{self.folder}: tensor {name!r} is {given}, but config.json says {tuple(shape)}; the files are not of "
                "one model"
            )
        self._taken.add(name)
        tensor: Tensor = self._files[name].get_tensor(name)
        if not tensor.is_floating_point():
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise CheckpointError(
                f"{self.folder}: tensor {name!r} is {dtype}, expected floating-point numbers; quantized models are not "
                "imported"
            )
        return tensor.float()

    def ignore(self, *names: str) -> None:
        """Leave out tensors that transformers does not use either."""
        self._taken.update(names)

    def _check(self, name: str) -> None:
        if name not in self._files:
            raise CheckpointError(f"{self.folder}: lacks tensor {name!r}, which config.json calls for")

    def check_all_taken(self) -> None:
        """Fail if there are tensors that were not used."""
        if unused := sorted(self._files.keys() - self._taken):
            more = f" (one of {len(unused)})" if len(unused) > 1 else ""
            raise CheckpointError(
                f"{self.folder}: tensor {unused[0]!r}{more} has no place in the model that config.json describes"
            )
