"""Attention on a picture: a panel for each token of the output, in which the places that it attends to are colored.

A state of the encoder stands for a cell of the picture: ``down`` × ``across`` pixels, the strides of the convolutions.
A text line has one row of cells, as high as the picture. The darkest cell of a panel has the largest weight of its
token, which is written beside it. `terminal_panels` shows it in a terminal, `draw_panels` writes it as SVG (which can
be animated), HTML, PNG or PDF.

A panel of a long line shows the part of the picture around the middle of the attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from weft.errors import DataError
from weft.files import replacing
from weft.pictures.labels import caption, one_line, shorten, visible
from weft.pictures.picture import FORMATS, FRAME, Page, write_picture
from weft.pictures.pixels import as_rgb, fit, frames_picture, half_blocks, resized, shades, tinted
from weft.pictures.terminal import Shading, ascii_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.translation.results import Translation
    from weft.translation.translator import Translator

TEXT_FORMATS = ("svg", "html")
MAX_PANELS = 150
"""Tokens that are shown, from the first on."""
LONGEST = 14
"""A panel is at most this many times as wide as it is high."""
LONGEST_LABEL = 18
PAGE_WIDTH = 10.0
"""Inches of a drawn page."""
PANEL_HEIGHTS = (0.35, 1.6)
"""Inches of the lowest and of the highest panel."""


@dataclass(frozen=True)
class AttentionPanels:
    """A picture, the tokens of an output, and the weights of each token over the cells of the picture."""

    picture: np.ndarray
    """uint8, (height, width) or (height, width, channels)."""
    tokens: Sequence[str]
    weights_THW: np.ndarray
    """Token × row × column of cells; token × column if there is one row."""
    strides: tuple[int, int] = (1, 1)
    """Pixels of a cell, down and across; the last row and column may have fewer."""

    def __post_init__(self) -> None:
        as_rgb(self.picture)
        weights = np.asarray(self.weights_THW, dtype=float)
        rows = 1 if weights.ndim == 2 else -(-self.picture.shape[0] // self.strides[0])
        expected = len(self.tokens), rows, -(-self.picture.shape[1] // self.strides[1])
        if weights.ndim not in (2, 3) or weights.size != np.prod(expected) or weights.shape[-1] != expected[2]:
            shape = " × ".join(map(str, weights.shape))
            raise DataError(
                "attention weights are {}, expected {} tokens × {} rows × {} columns of cells".format(shape, *expected)
            )
        if not self.tokens:
            raise DataError("attention on a picture has no panels; expected at least 1 token")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise DataError("attention weights are not all finite and at least 0")
        object.__setattr__(self, "weights_THW", weights.reshape(expected))

    @cached_property
    def labels(self) -> list[str]:
        """The tokens that are shown."""
        return [shorten(visible(token), LONGEST_LABEL) for token in self.tokens[:MAX_PANELS]]

    @property
    def more(self) -> str:
        """A note on the tokens that are not shown."""
        hidden = len(self.tokens) - MAX_PANELS
        return f"and {hidden:,} more tokens" if hidden > 0 else ""

    def peak(self, token: int) -> float:
        return float(self.weights_THW[token].max()) or 1.0

    def cells(self, token: int, smallest: float = 0.0) -> Iterator[tuple[tuple[int, int, int, int], float]]:
        """The cells of a token, as (left, top, width, height) in pixels, and their share of the largest weight."""
        (height, width), (down, across) = self.picture.shape[:2], self.strides
        shares_HW = self.weights_THW[token] / self.peak(token)
        if self.weights_THW.shape[1] == 1:
            down = height
        for row, column in np.argwhere(shares_HW > smallest).tolist():
            left, top = column * across, row * down
            yield (left, top, min(across, width - left), min(down, height - top)), float(shares_HW[row, column])

    def shares(self, token: int) -> np.ndarray:
        """The share of the largest weight at each pixel: (height, width)."""
        shares_HW = np.zeros(self.picture.shape[:2])
        for (left, top, width, height), share in self.cells(token):
            shares_HW[top : top + height, left : left + width] = share
        return shares_HW

    def window(self, token: int) -> tuple[int, int]:
        """The columns of pixels in the panel of a token: all, or in a long line those around its attention."""
        height, width = self.picture.shape[:2]
        longest = max(LONGEST * height, 2 * self.strides[1])
        if width <= longest:
            return 0, width
        weights_W = self.weights_THW[token].sum(0)
        middle = (np.arange(len(weights_W)) + 0.5) @ weights_W / (weights_W.sum() or 1.0) * self.strides[1]
        start = int(min(max(middle - longest / 2, 0), width - longest))
        return start, start + longest


def panels_of(run: Translator, translation: Translation) -> AttentionPanels | None:
    """The attention of a translation on its source; None if the source is a text, or there is no attention."""
    stem, tokenizer = run.recipe.model.stem, run.tokenizers.source
    if not run.recipe.tokenizer.reads_arrays or translation.attention is None:
        return None
    array = tokenizer.read(translation.source)  # type: ignore[attr-defined]
    down, across = (math.prod(strides) for strides in zip(*stem.stages, strict=True))
    picture = frames_picture(array) if array.ndim == 2 else array
    weights_TS = np.asarray(translation.attention, dtype=float)
    rows, columns = stem.output_shape(*array.shape[:2])
    if rows == 1:
        return AttentionPanels(picture, translation.tokens, weights_TS, (picture.shape[0], across))
    return AttentionPanels(picture, translation.tokens, weights_TS.reshape(-1, rows, columns), (down, across))


def terminal_panels(panels: AttentionPanels, *, width: int | None = None) -> TerminalPanels:
    """The panels for rich's `print`: the picture in colored half blocks; without colors, its shades and the weights."""
    return TerminalPanels(panels, width)


@dataclass(frozen=True)
class TerminalPanels:
    """Panels to print. Their layout is made when they are printed, when the width and the colors are known."""

    panels: AttentionPanels
    width: int | None
    lines: int = 6
    """Lines of a panel."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        panels, shading = self.panels, Shading.of(console, options)
        labels = [ascii_text(label) for label in panels.labels] if options.ascii_only else panels.labels
        width = max(min(self.width or options.max_width, options.max_width), 8)
        gutter = min(max(map(cell_len, labels)) + 7, width // 2)
        for token, label in enumerate(labels):
            weight = f"{panels.peak(token):.2f}"
            heading = shorten(label, max(gutter - len(weight) - 2, 1))
            start, end = panels.window(token)
            shown = fit(panels.picture[:, start:end], 2 * self.lines, max(width - gutter, 1))
            shares_HW = panels.shares(token)[:, start:end]
            shares_HW = resized(np.rint(255 * shares_HW), *shown.shape[:2]) / 255
            if shading.colored:
                lines = half_blocks(tinted(shown, shares_HW))
            else:
                lines = shades(shown, ascii_only=options.ascii_only)
                symbols = (cell.plain[0] for cell in map(shading.cell, shares_HW.max(0).tolist()))
                lines.append(Text("".join(symbols)))
            for number, line in enumerate(lines):
                first = f"{heading}{' ' * (gutter - 2 - cell_len(heading) - len(weight))}{weight}  "
                joined = Text.assemble(first if number == 0 else " " * gutter, line)
                joined.no_wrap = True
                yield joined
        if panels.more:
            yield Text(panels.more, style="dim")


def draw_panels(panels: AttentionPanels, to: str | Path, *, title: str | None = None, animated: bool = False) -> Path:
    """Write the panels in the format of the path's suffix: .svg, .html, .png or .pdf; ``animated``: an .svg that shows
    one token after the other."""
    from weft.pictures.html import attention_panels as html

    path = Path(to)
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in (*TEXT_FORMATS, *FORMATS):
        names = ", ".join(dict.fromkeys((*TEXT_FORMATS, *FORMATS)))
        raise DataError(f"{path}: cannot draw a picture of type {suffix!r}; choose one of {names}")
    heading = caption(title)
    if suffix in TEXT_FORMATS:
        if suffix == "html":
            content = html.panels_page(panels, one_line(title or ""))
        else:
            content = (html.animation if animated else html.panels_svg)(panels, one_line(title or ""))
        try:
            with replacing(path) as file:
                file.write(content.encode("utf-8"))
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
        return path
    texts = [*panels.labels, heading, panels.more]
    return write_picture(path, texts, lambda families: _figure(panels, heading, families))


def _figure(panels: AttentionPanels, title: str, families: list[str]) -> Figure:
    """The page, in inches: panels from left to right and from top to bottom, each below its token."""
    page = Page.blank(families)
    sizes = [panels.window(token) for token in range(len(panels.labels))]
    height, width = panels.picture.shape[0], max(end - start for start, end in sizes)
    panel_height = min(max(height / 75, PANEL_HEIGHTS[0]), PANEL_HEIGHTS[1], PAGE_WIDTH * height / width)
    panel_width = max(panel_height * width / height, 0.05)
    labels = [f"{label}  {panels.peak(token):.2f}" for token, label in enumerate(panels.labels)]
    style = page.note_style
    cell_width = max(panel_width, page.width_of(labels, style)) + 0.2
    columns = max(int(PAGE_WIDTH / cell_width), 1)
    top = 0.15 + (0.35 + 0.2 * title.count("\n") if title else 0)
    rows = -(-len(labels) // columns)
    row_height = panel_height + 0.32
    page_width = max(
        0.3 + min(columns, len(labels)) * cell_width, page.width_of([title or "-"], page.title_style) + 0.3
    )
    page.figure.set_size_inches(page_width, top + rows * row_height + (0.3 if panels.more else 0.1))
    if title:
        page.write(0.15, 0.12, title, page.title_style)
    for token, label in enumerate(labels):
        left, upper = 0.15 + token % columns * cell_width, top + token // columns * row_height
        page.write(left, upper, label, style)
        start, end = sizes[token]
        axes = page.axes(left, upper + 0.19, panel_height * (end - start) / height, panel_height)
        axes.imshow(tinted(panels.picture[:, start:end], panels.shares(token)[:, start:end]), aspect="auto")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=FRAME, linewidth=0.6)
    if panels.more:
        page.write(0.15, top + rows * row_height, panels.more, style)
    return page.figure
