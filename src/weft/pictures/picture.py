"""Pictures: file formats, fonts, colors and page layout that all views share."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.cells import cell_len

from weft.errors import DataError
from weft.files import replacing
from weft.pictures.fonts import choose
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

FORMATS = ("svg", "png", "pdf")
DOTS_PER_INCH = 150
MAX_PIXELS = 12_000
"""Pixels per side; a larger PNG is drawn at a lower resolution."""
POINTS_PER_INCH = 72
TITLE_POINTS = 13
INK, FAINT, FRAME, LINES = "#1f2933", "#52606d", "#9aa5b1", "#d9dee5"
"""Colors of titles, of notes, of the frames of panels and of the lines between cells."""
BLUE, GRAY = "#08519c", "#7b8794"
"""Colors of what a search chose, and of the rest."""
DARK = "@media screen and (prefers-color-scheme: dark) { svg { filter: invert(0.9) hue-rotate(180deg) } }"
"""Style of an SVG where the reader's pages are dark: lightness is reversed, hues stay. Prints are light."""
_drawing = threading.Lock()


def check_format(path: Path) -> str:
    """The format that the path's suffix names, if pictures can be written in it."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise DataError(f"{path}: cannot draw a picture of type {suffix!r}; choose one of {', '.join(FORMATS)}")
    return suffix


def write_picture(to: str | Path, texts: Iterable[str], figure: Callable[[list[str]], Figure]) -> Path:
    """Write the figure made for the font families that the texts need, in the format of the path's suffix.

    The same figure gives the same bytes; a failure leaves an existing file as it was.
    """
    path = Path(to)
    suffix = check_format(path)
    with activity(f"drawing {path}"):
        return _write_picture(path, suffix, texts, figure)


def _write_picture(path: Path, suffix: str, texts: Iterable[str], figure: Callable[[list[str]], Figure]) -> Path:
    fonts = choose("".join(texts))
    if fonts.missing and suffix != "svg":
        codes = ", ".join(f"{character} (U+{ord(character):04X})" for character in fonts.missing[:5])
        more = f" and {len(fonts.missing) - 5} more" if len(fonts.missing) > 5 else ""
        log.warning("%s: no installed font has %s%s; boxes are drawn. An .svg shows them.", path, codes, more)
    families = ["DejaVu Sans", "sans-serif"] if suffix == "svg" else fonts.families
    try:
        # Text as text in SVG is a global setting of matplotlib, and so is the filter for its warnings: one at a time.
        with _drawing, warnings.catch_warnings(), replacing(path) as file:
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")  # reported above, once
            _save(figure(families), file, suffix)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def _save(figure: Figure, file: BinaryIO, suffix: str) -> None:
    import matplotlib

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "weft", "pdf.fonttype": 42, "text.usetex": False}
    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[suffix]
    dpi = min(DOTS_PER_INCH, MAX_PIXELS / max(figure.get_size_inches()))
    drawn = BytesIO()
    with matplotlib.rc_context(settings):
        figure.savefig(drawn, format=suffix, dpi=dpi, metadata=without_date)
    content = drawn.getvalue()
    if suffix == "svg":
        content = content.replace(b" <metadata>", f" <style>{DARK}</style>\n <metadata>".encode(), 1)
    file.write(content)


def colormap(colors: Sequence[tuple[int, int, int]]) -> LinearSegmentedColormap:
    """A matplotlib colormap of equally spaced colors."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weft", [tuple(part / 255 for part in color) for color in colors])


def title_height(title: str) -> float:
    """Inches of a title above the rest of the page, its lower margin included."""
    return 0.1 + 1.35 * TITLE_POINTS / POINTS_PER_INCH * (title.count("\n") + 1) if title else 0.0


@dataclass(frozen=True)
class Page:
    """A figure on which positions are inches from the top left corner, and the style of its text."""

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

    @property
    def title_style(self) -> dict[str, Any]:
        return self.style(TITLE_POINTS, INK)

    @property
    def note_style(self) -> dict[str, Any]:
        return self.style(9, FAINT)

    def width_of(self, texts: Iterable[str], style: dict[str, Any]) -> float:
        """Inches of the widest text: in our font, or in a browser's, which can have wider glyphs."""
        return max(self._width(text, style) for text in set(texts))

    def _width(self, text: str, style: dict[str, Any]) -> float:
        drawn = self.figure.text(0, 0, text, **style)
        measured = drawn.get_window_extent().width / self.figure.dpi
        drawn.remove()
        return max(measured, max(map(cell_len, text.split("\n"))) * 0.6 * style["fontsize"] / POINTS_PER_INCH)

    def axes(self, x: float, top: float, width: float, height: float) -> Axes:
        """Axes with a corner at these inches from the top left; set the figure's size first."""
        page_width, page_height = self.figure.get_size_inches()
        corner = x / page_width, 1 - (top + height) / page_height
        return self.figure.add_axes((*corner, width / page_width, height / page_height))

    def canvas(self, width: float, height: float) -> Axes:
        """Set the figure's size, and give axes over all of it whose units are inches from the top left corner."""
        self.figure.set_size_inches(width, height)
        axes = self.axes(0, 0, width, height)
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        return axes

    def write(self, x: float, top: float, text: str, style: dict[str, Any]) -> None:
        width, height = self.figure.get_size_inches()
        self.figure.text(x / width, 1 - top / height, text, ha="left", va="top", **style)
