"""Thumbnails: pictures with their texts, for a look at a corpus in a terminal and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from weft.pictures.labels import one_line, shorten
from weft.pictures.pixels import fit, half_blocks, shades
from weft.pictures.terminal import Shading, ascii_text


class Thumbnail(NamedTuple):
    """A picture and what is written below it."""

    picture: np.ndarray
    """uint8, (height, width) or (height, width, channels)."""
    text: str
    """The target."""
    name: str = ""
    """The file, with its row."""

    @property
    def size(self) -> str:
        """Height × width, in pixels."""
        return f"{self.picture.shape[0]:,} × {self.picture.shape[1]:,}"


def terminal_thumbnails(
    thumbnails: Sequence[Thumbnail], *, width: int | None = None, lines: int = 8
) -> TerminalThumbnails:
    """Thumbnails for rich's `print`, each at most this wide and this many lines high."""
    return TerminalThumbnails(thumbnails, width, lines)


@dataclass(frozen=True)
class TerminalThumbnails:
    """Thumbnails to print, in colors if the terminal has them, else in shades."""

    thumbnails: Sequence[Thumbnail]
    width: int | None
    lines: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(min(self.width or options.max_width, options.max_width), 8)
        has_colors = Shading.of(console, options).colored
        for number, thumbnail in enumerate(self.thumbnails):
            text = one_line(thumbnail.text) if thumbnail.text.strip() else "(empty)"
            name = "  ".join(filter(None, (one_line(thumbnail.name) if thumbnail.name else "", thumbnail.size)))
            if options.ascii_only:
                text, name = ascii_text(text), ascii_text(name.replace("×", "x"))
            small = fit(thumbnail.picture, 2 * self.lines, width - 2)
            pixels = half_blocks(small) if has_colors else shades(small, ascii_only=options.ascii_only)
            heading = Text(shorten(name, width), style="dim")
            parts = [*([Text()] if number else []), heading, *(Text("  ").append(line) for line in pixels)]
            for line in (*parts, Text(shorten(f"  {text}", width))):
                line.no_wrap = True
                yield line
