"""Reading the tensors of a safetensors file into memory of their own, with a checksum."""

from __future__ import annotations

import json
import zlib
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from weft.checksums import CHECKSUM
from weft.errors import CheckpointError

if TYPE_CHECKING:
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

BLOCK_BYTES = 16 << 20
"""Bytes of a file that are read at a time. Between two blocks a thread that reads in the background waits for the
interpreter's lock, so they are large."""


def encoded_header(header: dict[str, Any]) -> bytes:
    """The header of a safetensors file, sorted: the library writes metadata in a random order."""
    encoded = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return encoded + b" " * (-len(encoded) % 8)


def read_data(path: Path, stop: Event | None = None) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file whose header is in order, and the checksum of its header without it and of all data.

    The file is read once, and nothing is in memory twice. ``stop``: ends it once it is set.
    """
    import torch

    dtypes = {code: getattr(torch, name) for code, name in DTYPES.items()}
    with path.open("rb", buffering=0) as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header["__metadata__"].pop(CHECKSUM, None)
        value = zlib.crc32(encoded_header(header))
        del header["__metadata__"]
        tensors = {}
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            if entry["dtype"] not in dtypes:
                raise CheckpointError(f"{path}: tensor {name!r} is of type {entry['dtype']}, which weft does not read")
            tensor = tensors[name] = torch.empty(entry["shape"], dtype=dtypes[entry["dtype"]])
            data = memoryview(tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
            while data:
                if stop is not None and stop.is_set():
                    raise CancelledError
                count = file.readinto(data[:BLOCK_BYTES]) or 0
                if not count:
                    raise CheckpointError(f"{path}: damaged (it ends early); restore it from a copy, or train again")
                value = zlib.crc32(data[:count], value)
                data = data[count:]
    return tensors, f"{value:08x}"
