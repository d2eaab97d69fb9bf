"""Pixels of sources that are pictures or frames, as views show them: smaller, tinted, or as half blocks in a terminal.

Arrays are uint8, height × width or height × width × channels (gray, or red, green and blue); frames become a gray
picture with time from left to right, the lowest feature at the bottom, and large values dark.
"""

from __future__ import annotations

import numpy as np
from rich.style import Style
from rich.text import Text

from weft.errors import DataError
from weft.pictures.terminal import ASCII_SHADES, SHADES

TINT = (31, 119, 214)
"""The color of attention."""
MAX_TINT = 0.6
"""The share of the color at the largest weight; the rest is the picture."""
SMALLEST_RANGE = 32
"""A smaller difference in brightness than this is shown as paper in a terminal of shades."""


def as_rgb(picture: np.ndarray) -> np.ndarray:
    """The picture with three channels: uint8, (height, width, 3)."""
    pixels = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        sizes = " × ".join(map(str, picture.shape))
        raise DataError(f"a picture of {picture.dtype}, {sizes}; expected uint8, height × width × 1 or 3 channels")
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def frames_picture(frames: np.ndarray) -> np.ndarray:
    """Frames (time, features) as a picture: uint8, (features, time); the smallest value white, the largest black."""
    values = np.nan_to_num(frames.astype(np.float64))
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.rint(255 - 255 * scaled).astype(np.uint8).T[::-1]


def fit(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture made smaller, in proportion, to at most this size; a new pixel is the mean of those it covers."""
    scale = max(picture.shape[0] / height, picture.shape[1] / width)
    if scale <= 1:
        return picture
    return resized(picture, max(int(picture.shape[0] / scale), 1), max(int(picture.shape[1] / scale), 1))


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture in another size; a new pixel is the mean of those it covers."""
    means = picture.astype(np.float64)
    for axis, size in enumerate((height, width)):
        means = _means(means, axis, size)
    return np.rint(means).astype(np.uint8)


def tinted(picture: np.ndarray, shares_HW: np.ndarray, color: tuple[int, int, int] = TINT) -> np.ndarray:
    """p + `MAX_TINT` · share · (color − p): the picture where attention is colored, by shares from 0 to 1."""
    rgb = as_rgb(picture).astype(np.float64)
    shares_HW1 = MAX_TINT * np.clip(shares_HW, 0, 1)[:, :, None]
    return np.rint(rgb + shares_HW1 * (np.array(color) - rgb)).astype(np.uint8)


def half_blocks(picture: np.ndarray) -> list[Text]:
    """The picture for a terminal with colors: two pixels, one above the other, in a character."""
    rgb = as_rgb(picture)
    if rgb.shape[0] % 2:
        rgb = np.concatenate([rgb, rgb[-1:]])
    lines = []
    for upper, lower in zip(rgb[::2].tolist(), rgb[1::2].tolist(), strict=True):
        line = Text()
        for above, below in zip(upper, lower, strict=True):
            line.append("▀", Style.parse("rgb({},{},{}) on rgb({},{},{})".format(*above, *below)))
        lines.append(line)
    return lines


def shades(picture: np.ndarray, *, ascii_only: bool = False) -> list[Text]:
    """The picture for a terminal without colors: a character for two pixels, one above the other, by their ink."""
    gray = as_rgb(picture).mean(2)
    paper = np.median(np.concatenate([gray[0], gray[-1], gray[:, 0], gray[:, -1]]))
    ink = _means(np.abs(gray - paper), 0, -(-len(gray) // 2))
    ink = ink / max(ink.max(), SMALLEST_RANGE)
    symbols = [" ", *(shade[0] for shade in (ASCII_SHADES if ascii_only else SHADES)[1:])]
    return [Text("".join(symbols[min(int(share * 5), 4)] for share in row)) for row in ink]


def _means(values: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The means of ``size`` equal ranges of an axis; parts of a pixel count as such."""
    old = values.shape[axis]
    if old == size:
        return values
    sums = np.concatenate([np.zeros_like(values.take([0], axis)), values.cumsum(axis)], axis)
    edges = np.arange(size + 1) * old / size
    low = np.minimum(edges.astype(int), old - 1)
    shape = [1] * values.ndim
    shape[axis] = size + 1
    up_to_edges = sums.take(low, axis) + (edges - low).reshape(shape) * values.take(low, axis)
    differences: np.ndarray = np.diff(up_to_edges, axis=axis)
    return differences * (size / old)
