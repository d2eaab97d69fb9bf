"""Writing pictures: formats, fonts and pages that every view shares. What is on them is the views' business."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.cells import cell_len

from weft.errors import DataError
from weft.files import replacing
from weft.views.fonts import choose

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

FORMATS = ("svg", "png", "pdf")
DOTS_PER_INCH = 150
LARGEST_PICTURE = 12_000
"""Pixels a side; beyond that a PNG is drawn more coarsely."""
_drawing = threading.Lock()
INK, FAINT, FRAME, LINES = "#1f2933", "#52606d", "#9aa5b1", "#d9dee5"
"""Colors of titles, of notes, of the frames of panels and of the lines between cells."""


def picture_format(path: Path) -> str:
    """What the path ends in, if pictures can be written so."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise DataError(f"{path}: cannot draw a picture of type {suffix!r}; choose one of {', '.join(FORMATS)}")
    return suffix


def write_picture(path: Path, suffix: str, texts: Iterable[str], figure: Callable[[list[str]], Figure]) -> Path:
    """Write the figure made for the font families that the texts need; a failure leaves what was at the path."""
    fonts = choose("".join(texts))
    if fonts.missing and suffix != "svg":
        codes = ", ".join(f"{character} (U+{ord(character):04X})" for character in fonts.missing[:5])
        more = f" and {len(fonts.missing) - 5} more" if len(fonts.missing) > 5 else ""
        log.warning("%s: no installed font has %s%s; boxes stand for them. An .svg shows them.", path, codes, more)
    families = ["DejaVu Sans", "sans-serif"] if suffix == "svg" else fonts.families
    try:
        # Text as text in SVG is a global setting of matplotlib, and so is the filter for its warnings: one at a time.
        with _drawing, warnings.catch_warnings(), replacing(path) as file:
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")  # said above, once
            _save(figure(families), file, suffix)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def _save(figure: Figure, file: BinaryIO, suffix: str) -> None:
    import matplotlib

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "weft", "pdf.fonttype": 42, "text.usetex": False}
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[suffix]
    dpi = min(DOTS_PER_INCH, LARGEST_PICTURE / max(figure.get_size_inches()))
    with matplotlib.rc_context(settings):
        figure.savefig(file, format=suffix, dpi=dpi, metadata=dateless)


def inches(figure: Figure, label: str, text: dict[str, Any]) -> float:
    """The wider of what the label measures in our font and what it may in a browser's, which can have other glyphs."""
    drawn = figure.text(0, 0, label, **text)
    measured = drawn.get_window_extent().width / figure.dpi
    drawn.remove()
    return max(measured, max(map(cell_len, label.split("\n"))) * 0.6 * text["fontsize"] / 72)


@dataclass(frozen=True)
class Page:
    """A figure on which places are inches from the top left, and the style of its text."""

    figure: Figure
    text: dict[str, Any]

    @classmethod
    def blank(cls, families: list[str]) -> Page:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(facecolor="white")
        FigureCanvasAgg(figure)
        return cls(figure, {"parse_math": False, "usetex": False, "family": families})

    def style(self, points: float, color: str, **more: Any) -> dict[str, Any]:
        return self.text | {"fontsize": points, "color": color} | more

    def inches(self, words: Iterable[str], style: dict[str, Any]) -> float:
        """The width of the widest."""
        return max(inches(self.figure, word, style) for word in set(words))

    def axes(self, x: float, top: float, wide: float, high: float) -> Axes:
        width, height = self.figure.get_size_inches()
        return self.figure.add_axes((x / width, 1 - (top + high) / height, wide / width, high / height))

    def write(self, x: float, top: float, words: str, style: dict[str, Any]) -> None:
        width, height = self.figure.get_size_inches()
        self.figure.text(x / width, 1 - top / height, words, ha="left", va="top", **style)
