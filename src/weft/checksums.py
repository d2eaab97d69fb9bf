"""Checksums of stored files (CRC-32): damage is noticed when they are opened. They do not protect against tampering."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from weft.errors import CheckpointError, WeftError

CHECKSUM = "crc32"
"""The key of a checksum in a JSON object, and in the metadata of a tensor file."""


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """The same JSON object with a checksum, which `check_checksum` compares."""
    return {**content, CHECKSUM: _checksum(content)}


def check_checksum(content: dict[str, Any], *, where: str, error: type[WeftError] = CheckpointError) -> None:
    """Remove the checksum from a JSON object; ``error`` if it is not that of the rest. Older files have none."""
    if (checksum := content.pop(CHECKSUM, None)) is not None and checksum != _checksum(content):
        raise error(f"{where}: damaged (its content does not match its checksum); restore it from a copy")


def _checksum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def file_checksum(path: Path) -> str:
    """The CRC-32 of a file; about 3 GB a second."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{value:08x}"
