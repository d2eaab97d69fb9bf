"""Attention maps for a page."""

from __future__ import annotations

import re

import numpy as np

from weft.pictures.html.attention_map import MAX_SIDE, attention_map


def test_cells_labels_and_shades() -> None:
    weights_TS = np.array([[0.5, 0.25, 0.0], [0.001, 0.0, 0.5]])
    drawing = attention_map(weights_TS, ["<b>", "y", "</s>"], ["ü", "w"])
    assert re.findall(r'fill-opacity="([^"]*)"', drawing) == ["1", "0.5", "1"]  # 0.001 is too faint
    assert "&lt;b&gt;" in drawing and "<b>" not in drawing and drawing.count("<text") == 5
    assert "<title>w ← &lt;/s&gt;: 0.50</title>" in drawing


def test_nothing_and_too_much() -> None:
    assert attention_map(np.zeros((0, 3)), ["a"] * 3, []) == ""
    assert attention_map(np.full((1, 1), np.nan), ["a"], ["b"]) == ""
    long = attention_map(np.full((1, MAX_SIDE + 50), 0.01), ["a"] * (MAX_SIDE + 50), ["b" * 90])
    assert long.count('class="cell"') == MAX_SIDE and "…</text>" in long
    assert 'fill-opacity="0"' not in attention_map(np.zeros((1, 1)), ["a"], ["b"])
