"""Attention maps as SVG for a page: source on top, target on the left, one cell per weight.

`weft.pictures.attention_map` draws picture files with matplotlib. This one is text: it is small, follows the
color scheme of the page, and needs no fonts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len

from weft.pictures.html.elements import Content, Html, element
from weft.pictures.labels import shorten, visible

CELL = 18
LABEL_CELLS = 18
"""The longest label, in columns of a terminal."""
CHARACTER = 6.6
"""The width of a column of a label, in pixels."""
SLANT = 50
"""Degrees by which the source labels rise."""
FAINTEST = 0.02
"""Cells with a smaller share of the largest weight are not drawn."""
MAX_SIDE = 160
"""Tokens of a side that are drawn."""


def attention_map(weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Html:
    """The map, in a box that scrolls; of very long sides the beginning."""
    weights_TS = np.asarray(weights_TS, dtype=float)[:MAX_SIDE, :MAX_SIDE]
    if not weights_TS.size or not np.isfinite(weights_TS).all():
        return Html("")
    sources = [shorten(visible(token), LABEL_CELLS) for token in source[:MAX_SIDE]]
    targets = [shorten(visible(token), LABEL_CELLS) for token in target[:MAX_SIDE]]
    slant = math.radians(SLANT)
    left = 8 + max(map(cell_len, targets)) * CHARACTER
    top = 12 + max(map(cell_len, sources)) * CHARACTER * math.sin(slant)
    rows, columns = weights_TS.shape
    ends = [
        (column + 0.5) * CELL + cell_len(label) * CHARACTER * math.cos(slant) for column, label in enumerate(sources)
    ]
    width, height = left + max(columns * CELL, *ends) + 12, top + rows * CELL + 4
    parts: list[Content] = [element("title", "attention: source across, output down")]
    for column, label in enumerate(sources):
        x, y = left + (column + 0.5) * CELL, top - 5
        parts.append(element("text", label, transform=f"translate({x:.1f} {y:.1f}) rotate(-{SLANT})"))
    for row, label in enumerate(targets):
        parts.append(element("text", label, x=left - 6, y=top + (row + 0.5) * CELL + 4, text_anchor="end"))
    parts += _cells(weights_TS, sources, targets, (left, top))
    parts.append(element("rect", x=left, y=top, width=columns * CELL, height=rows * CELL, class_="frame"))
    svg = element(
        "svg",
        *parts,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=round(width),
        height=round(height),
        role="img",
        aria_label="attention map",
    )
    return element("div", svg, class_="scroll")


def _cells(
    weights_TS: np.ndarray, sources: list[str], targets: list[str], corner: tuple[float, float]
) -> list[Content]:
    """The cells, as dark as their weights are large."""
    peak = float(weights_TS.max()) or 1.0
    left, top = corner
    cells: list[Content] = []
    for row, column in np.argwhere(weights_TS > FAINTEST * peak).tolist():
        weight = float(weights_TS[row, column])
        note = element("title", f"{targets[row]} ← {sources[column]}: {weight:.2f}")
        x, y = left + column * CELL, top + row * CELL
        cells.append(
            element("rect", note, x=x, y=y, width=CELL, height=CELL, class_="cell", fill_opacity=weight / peak)
        )
    return cells
