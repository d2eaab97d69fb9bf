"""Packed arrays: a picture or a sequence of frames as one row of bytes, like the ids of a text.

    byte 0        type of the values: 0 uint8, 1 float16, 2 float32
    byte 1        values of a pixel: 1 (gray) or 3; 0: frames
    bytes 2–4     height of a picture or number of frames, the lowest byte first
    bytes 5–7     width of a picture or values of a frame
    from byte 8   the values, row by row

So a token store holds arrays beside texts, memory-mapped and one byte a pixel; a batch is a `Ragged` of bytes, and
ragged in both directions; budgets, order, resuming and transport are those of ids. Only the two ends know what the
bytes mean: the source's tokenizer (`weft.data.arrays.tokenizer`) and the stem of a model (`weft.models.stems`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

HEADER = 8
"""Bytes before the values."""
DTYPES = ("uint8", "float16", "float32")
MAX_SIDE = (1 << 24) - 1
"""The largest height, width, number of frames or of features."""


class PackedShape(NamedTuple):
    """The shape in the header of a packed array."""

    dtype: str
    channels: int
    """Values of a pixel; 0: frames."""
    height: int
    """Height of a picture, or number of frames."""
    width: int
    """Width of a picture, or values of a frame."""

    @property
    def values(self) -> int:
        return self.height * self.width * max(self.channels, 1)


def pack(array: np.ndarray) -> np.ndarray:
    """The bytes (uint8) of a picture (height, width, channels) of uint8, or of frames (time, features)."""
    height, width, *channels = array.shape
    header = np.zeros(HEADER, np.uint8)
    header[0], header[1] = DTYPES.index(array.dtype.name), channels[0] if channels else 0
    header[2:5], header[5:8] = _bytes_of(height), _bytes_of(width)
    return np.concatenate([header, np.ascontiguousarray(array).reshape(-1).view(np.uint8)])


def shape_of(row: np.ndarray) -> PackedShape:
    """The shape in the header of a row of bytes, of any integer type."""
    return shapes_of(row[None, :HEADER])[0]


def shapes_of(headers_BH: np.ndarray) -> list[PackedShape]:
    """The shapes in headers, each a row of bytes of any integer type."""
    types_B, channels_B, *sides = headers_BH.astype(np.int64).T
    heights_B, widths_B = (low + (middle << 8) + (high << 16) for low, middle, high in (sides[:3], sides[3:]))
    columns = (values_B.tolist() for values_B in (types_B, channels_B, heights_B, widths_B))
    return [PackedShape(DTYPES[dtype], *sizes) for dtype, *sizes in zip(*columns, strict=True)]


def unpack(row: np.ndarray) -> np.ndarray:
    """The array in a row of bytes: the inverse of `pack`."""
    shape = shape_of(row)
    sizes = (shape.height, shape.width, *([shape.channels] if shape.channels else []))
    return row[HEADER:].astype(np.uint8).view(shape.dtype).reshape(sizes)


def _bytes_of(number: int) -> list[int]:
    if not 0 < number <= MAX_SIDE:
        raise ValueError(f"a side of {number:,}; expected 1 to {MAX_SIDE:,}")
    return [number & 255, number >> 8 & 255, number >> 16]
