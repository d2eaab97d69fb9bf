"""Scaling of pictures, literally: pixel by pixel, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence


def resized(values: Sequence[float], new_size: int) -> list[float]:
    """Each new value: the mean of the old ones near its center, with weights max(0, 1 − distance / reach)."""
    scale = len(values) / new_size
    reach = max(scale, 1.0)
    means = []
    for new in range(new_size):
        center = (new + 0.5) * scale - 0.5
        weights = [max(0.0, 1 - abs(old - center) / reach) for old in range(len(values))]
        means.append(sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights))
    return means


def with_height(picture: Sequence[Sequence[float]], height: int, width: int) -> list[list[float]]:
    """Columns, then rows."""
    columns = [resized(column, height) for column in zip(*picture, strict=True)]
    return [resized(row, width) for row in zip(*columns, strict=True)]
