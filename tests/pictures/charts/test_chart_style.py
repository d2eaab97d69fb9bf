"""The house style: told apart without color, legible on white, and the same in pages and pictures."""

from __future__ import annotations

from pathlib import Path

import weft.pictures.html.page
from weft.pictures.charts.chart import ASCII_SYMBOLS, COLORS, DASHES, MARKERS, MAX_SERIES, SYMBOLS, TERMINAL_COLORS


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2)."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_series_is_known_without_its_color() -> None:
    for marks in (COLORS, MARKERS, SYMBOLS, ASCII_SYMBOLS, TERMINAL_COLORS, DASHES):
        assert len(marks) == len(set(marks)) == MAX_SERIES


def test_every_color_stands_out_on_white() -> None:
    assert all(1.05 / (luminance(color) + 0.05) >= 3 for color in COLORS)


def test_pages_have_the_same_colors() -> None:
    css = Path(weft.pictures.html.page.__file__).with_name("style.css").read_text("utf-8")
    for number, color in enumerate(COLORS, 1):
        assert f"--s{number}: {color};" in css
