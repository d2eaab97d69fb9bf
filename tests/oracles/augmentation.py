"""Augmentation, literally: pixel by pixel, in plain Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Picture = Sequence[Sequence[float]]


def paper(picture: Picture) -> float:
    """The median of the border; a corner counts twice, in its row and in its column."""
    columns = [[row[0] for row in picture], [row[-1] for row in picture]]
    return statistics.median([*picture[0], *picture[-1], *columns[0], *columns[1]])


def interpolated(picture: Picture, y: float, x: float, outside: float) -> float:
    """Σ over the four pixels around (y, x) of (1 − |Δy|)(1 − |Δx|) p"""
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            is_inside = 0 <= row < len(picture) and 0 <= column < len(picture[0])
            total += (1 - abs(y - row)) * (1 - abs(x - column)) * (picture[row][column] if is_inside else outside)
    return total


def strokes(picture: Picture, change: float) -> list[list[float]]:
    """p + a (d − p), once for each pixel of width; dark strokes on light paper."""
    result = [list(row) for row in picture]
    steps = [min(1.0, change - step) for step in range(math.ceil(change))] if change > 0 else [0.5 * min(-change, 1)]
    for share in steps:
        before = result
        result = [list(row) for row in before]
        for y, row in enumerate(before):
            for x, value in enumerate(row):
                around = [
                    before[near_y][near_x]
                    for near_y in range(max(y - 1, 0), min(y + 2, len(before)))
                    for near_x in range(max(x - 1, 0), min(x + 2, len(row)))
                ]
                result[y][x] = value + share * ((min if change > 0 else max)(around) - value)
    return result


def masked(
    frames: Picture, time_spans: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]]
) -> list[list[float]]:
    """0 where a span of time (start, length) or a range of features covers a value."""
    return [
        [
            0.0 if any(a <= t < a + n for a, n in time_spans) or any(a <= k < a + n for a, n in ranges) else value
            for k, value in enumerate(frame)
        ]
        for t, frame in enumerate(frames)
    ]
