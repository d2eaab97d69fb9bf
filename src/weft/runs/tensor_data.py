"""The data of a safetensors file in memory, with its checksum.

Another thread can read the data while Python does other things. It would have to wait for the interpreter's lock, up to
5 ms each time, after every tensor that it reads or checks; so neighboring tensors are read, checked and held in one
block of memory. The first load of a process takes 0.22 s this way, and 0.31 s with `safetensors.safe_open` in the same
thread (60 million parameters, two cores).
"""

from __future__ import annotations

import json
import math
import zlib
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import CheckpointError
from weft.files import CHECKSUM, encoded_header

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""The types of tensors in safetensors files, and their names in torch."""

BLOCK_BYTES = 64 << 20
"""The largest block of several tensors, and the bytes of a file that are read at a time."""
ALIGNMENT = 64
"""Bytes. As in tensors that torch allocates: results of products may depend on it."""
COPIED_BYTES = 1 << 20
"""A tensor of fewer bytes is copied out of its block where it is not aligned there."""


class _Entry(NamedTuple):
    """A tensor in the header: its place is in bytes from the beginning of the data."""

    name: str
    dtype: torch.dtype
    shape: list[int]
    start: int
    end: int


class _Block(NamedTuple):
    """Tensors that follow each other in the file, and memory for them."""

    entries: list[_Entry]
    memory: Tensor

    def numbers(self) -> NDArray[Any]:
        """All of it as an array: of floating-point numbers, if its tensors are of one type of them, else of bytes."""
        dtypes = {str(entry.dtype).removeprefix("torch.") for entry in self.entries}
        return self.memory.numpy().view(*dtypes if dtypes in ({"float32"}, {"float64"}) else ("uint8",))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name. Vectors are copied, so that the block is freed with the matrices (by quantization)."""
        tensors, first = {}, self.entries[0].start
        for entry in self.entries:
            start, end = entry.start - first, entry.end - first
            part = self.memory[start:end]
            if start % ALIGNMENT or (len(entry.shape) < 2 and len(self.entries) > 1):
                part = part.clone()
            tensors[entry.name] = part.view(entry.dtype).view(entry.shape)
        return tensors


class TensorData:
    """The data of a safetensors file whose header is in order; no large tensor is in memory twice."""

    def __init__(self, path: Path) -> None:
        """Read the header and allocate memory for the data."""
        import torch

        self._path = path
        with path.open("rb", buffering=0) as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            self._start = file.tell()
        header["__metadata__"].pop(CHECKSUM, None)
        self._checksum = zlib.crc32(encoded_header(header))
        del header["__metadata__"]
        entries = []
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            if entry["dtype"] not in DTYPES:
                raise CheckpointError(f"{path}: tensor {name!r} is of type {entry['dtype']}, which weft does not read")
            dtype = getattr(torch, DTYPES[entry["dtype"]])
            entries.append(_Entry(name, dtype, entry["shape"], *entry["data_offsets"]))
        self._blocks = [
            _Block(group, torch.empty(group[-1].end - group[0].start, dtype=torch.uint8)) for group in _grouped(entries)
        ]
        self._parts = [part for block in self._blocks for part in _split(block.numbers())]
        self._sums: list[float] = []

    def read(self, stop: Event | None = None) -> None:
        """Read the data; ``stop``: ends it with a `CancelledError` once it is set."""
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._start)
            for part in self._parts:
                self._fill(part.data.cast("B"), file, stop)
                self._check(part)

    def _fill(self, part: memoryview, file: Any, stop: Event | None) -> None:
        while part:
            if stop is not None and stop.is_set():
                raise CancelledError
            count = file.readinto(part)
            if not count:
                raise CheckpointError(f"{self._path}: damaged (it ends early); restore it from a copy, or train again")
            part = part[count:]

    def _check(self, part: NDArray[Any]) -> None:
        import numpy as np

        self._checksum = zlib.crc32(part.data, self._checksum)
        with np.errstate(all="ignore"):
            self._sums.append(float(part.sum()) if part.dtype.kind == "f" else math.nan)

    @property
    def checksum(self) -> str:
        """Checksum of all data and of the header without its checksum."""
        return f"{self._checksum:08x}"

    def is_finite(self) -> bool:
        """Whether all tensors are known to hold finite numbers alone: a sum with another number is not finite."""
        return all(map(math.isfinite, self._sums))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {name: tensor for block in self._blocks for name, tensor in block.tensors().items()}


def _split(numbers: NDArray[Any]) -> list[NDArray[Any]]:
    """An array in parts of `BLOCK_BYTES`."""
    length = BLOCK_BYTES // numbers.itemsize
    return [numbers[start : start + length] for start in range(0, len(numbers), length)]


def _grouped(entries: list[_Entry]) -> list[list[_Entry]]:
    """Tensors that follow each other, in groups of up to `BLOCK_BYTES`; large tensors are aligned in theirs."""
    groups: list[list[_Entry]] = []
    for entry in entries:
        first = groups[-1][0].start if groups else 0
        aligned = (entry.start - first) % ALIGNMENT == 0 or entry.end - entry.start < COPIED_BYTES
        if groups and aligned and entry.end - first <= BLOCK_BYTES:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups
