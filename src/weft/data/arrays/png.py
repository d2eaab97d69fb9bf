"""PNG files from arrays of bytes, written with the standard library: reading needs Pillow, writing does not.

The format: ISO/IEC 15948. Rows are compressed without a filter; the same array gives the same pixels everywhere, and
the same bytes with the same version of zlib.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

from weft.errors import DataError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""Channels, and the number of the format for them: gray, gray and alpha, RGB, RGB and alpha."""


def png_bytes(picture: np.ndarray) -> bytes:
    """The file of a picture: uint8, (height, width) or (height, width, 1 to 4 channels)."""
    pixels = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.dtype != np.uint8 or pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in COLOR_TYPES:
        sizes = " × ".join(map(str, picture.shape)) or "no axes"
        raise DataError(f"a picture of {picture.dtype}, {sizes}; expected uint8, height × width × 1 to 4 channels")
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with the number of its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    return (
        SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")
    )


def data_address(picture: np.ndarray) -> str:
    """The address of a picture for a page that loads nothing: ``data:image/png;base64,…``."""
    return "data:image/png;base64," + b64encode(png_bytes(picture)).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
