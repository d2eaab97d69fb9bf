"""The path of a greedy search or of sampling: at every step the candidates, what was left of them, and the one taken.

A bar is as long as its token is probable, on one scale for all steps: solid where the cut-offs (top-k, top-p, …) left
the token in, hollow where they cut it, and a line where the cut-off falls. `terminal_path` writes the steps one below
the other, `draw_path` as SVG, PNG or PDF, side by side (`path_svg` gives the SVG as text).

Known limits: those of `attention_map` for scripts and fonts. Only the candidates that the trace holds are shown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from weft.errors import DataError
from weft.search.trace import Draw, PathTrace
from weft.views.labels import shorten, visible
from weft.views.picture import FAINT, FRAME, INK, LINES, Page, picture_format, write_picture
from weft.views.search_tree import BLUE, GRAY, LONGEST_LABEL, LOOKS, Label, caption, plain, rendered, upright

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 8
"""Candidates of a step that are shown; the one that was taken always is."""
LEAST = 0.0005
"""What is less probable would be shown as 0.000."""


def cut_off(draw: Draw) -> int | None:
    """The place of the first candidate below the cut-off line; None where no line parts those left in from the others.

    A token that a rule forbids may be likelier than one left in: then there is no such line.
    """
    falls = [place for place, (here, after) in enumerate(pairwise(draw.kept), 1) if here and not after]
    return falls[0] if len(falls) == 1 and draw.kept[0] and not any(draw.kept[falls[0] :]) else None


def shown(draw: Draw, most: int) -> list[int]:
    """The places of the candidates to show: the likeliest and the one taken; beyond two, none next to 0."""
    places = [place for place, p in enumerate(draw.probabilities[:most]) if place < 2 or p >= LEAST]
    return places if draw.drawn in places else [*places[: most - 1], draw.drawn]


def probability(p: float) -> str:
    return f"{p:.3f}" if p >= LEAST else "<.001"


def left_in(draw: Draw) -> str:
    """How many tokens the cut-offs left, and how much probability."""
    return f"{draw.left:,} token{'s' * (draw.left != 1)} left in, p {draw.mass:.2f}"


# In a terminal

LEGEND = "▶ taken   █ left in   ░ cut off   p: probability of the token (all bars: 0 to 1)"


def terminal_path(
    trace: PathTrace,
    label: Label,
    *,
    width: int = 80,
    color: bool = False,
    most: int = MOST,
    ascii_only: bool = False,
) -> str:
    """The steps as lines of at most `width` cells, with a legend; `color` adds the codes of a terminal."""
    if not trace.steps:
        return "The search made no step: there is no path.\n"
    said = plain(label, ascii_only)
    tokens = [token for draw in trace.steps for token in draw.tokens]
    room = min(max(cell_len(said(token)) for token in set(tokens)), LONGEST_LABEL, max(width // 4, 4))
    bar = max(min(width - room - 11, 50), 4)
    lines = [line for number, draw in enumerate(trace.steps, 1) for line in _step(number, draw, said, room, bar, most)]
    return rendered([*lines, Text(LEGEND, style="dim")], width, color, ascii_only)


def _step(number: int, draw: Draw, said: Label, room: int, bar: int, most: int) -> Iterator[Text]:
    """A heading, a line for each candidate, and the cut-off between them."""
    yield Text.assemble((f"step {number}", "bold"), (f"   {left_in(draw)}", LOOKS["faint"]))
    line = cut_off(draw)
    places = shown(draw, most)
    for place in places:
        if place == line:
            yield Text("  " + "─" * (room + 1) + " cut-off " + "─" * max(bar - 2, 0), style=LOOKS["cut"])
        elif place == places[-1] and place != len(places) - 1:
            yield Text("  …", style=LOOKS["cut"])
        word = upright(shorten(said(draw.tokens[place]), room))
        taken, kept = place == draw.drawn, draw.kept[place]
        look = LOOKS["wins"] if taken else "" if kept else LOOKS["cut"]
        p = draw.probabilities[place]
        start = f"{'▶' if taken else ' '} {word}{' ' * (room - cell_len(word))} {probability(p)} "
        yield Text(start + _signs(p * bar, kept), style=look)
    yield Text()


EIGHTHS = "▏▎▍▌▋▊▉"


def _signs(cells: float, kept: bool) -> str:
    """A bar of so many cells, to an eighth of one where it is solid."""
    if not kept:
        return "░" * round(cells) or "·"
    whole, eighths = divmod(round(cells * 8), 8)
    return "█" * whole + (EIGHTHS[eighths - 1] if eighths else "") or EIGHTHS[0]


# As a picture

PAGE = 13.0
"""Inches that the steps of one row share."""
ROW, HEAD, FOOT, BAR, BETWEEN = 0.2, 0.34, 0.3, 1.1, 0.25
"""Inches of a candidate, above and below them, of a bar for p = 1, and between steps."""
SOLID = "#6baed6"
POINTS, SMALL = 8.5, 7.5
EXPLAINED = "Bars: the probability of each candidate, 0 to 1."
SAMPLES = (("taken", "taken"), ("kept", "left in"), ("cut", "cut off"), ("line", "the cut-off"))


def draw_path(trace: PathTrace, label: Label, to: str | Path, *, title: str = "", most: int = MOST) -> Path:
    """Write the steps as a picture, in the format the path ends in: .svg, .png or .pdf.

    The same trace gives the same bytes.
    """
    path = Path(to)
    suffix = picture_format(path)
    if not trace.steps:
        raise DataError("the search made no step; expected a trace of at least 1")
    steps = [
        [(place, shorten(visible(label(draw.tokens[place])), LONGEST_LABEL)) for place in shown(draw, most)]
        for draw in trace.steps
    ]
    heading = caption(title)
    texts = [heading, *(word for step in steps for _, word in step)]
    return write_picture(path, suffix, texts, lambda families: _figure(trace.steps, steps, heading, families))


def path_svg(trace: PathTrace, label: Label, *, title: str = "", most: int = MOST) -> str:
    """The picture as the text of an SVG file, for a page or a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        return draw_path(trace, label, Path(folder) / "path.svg", title=title, most=most).read_text("utf-8")


def _figure(draws: list[Draw], steps: list[list[tuple[int, str]]], title: str, families: list[str]) -> Figure:
    """The picture: title, legend, and the steps in rows, as many side by side as fit."""
    page = Page.blank(families)
    bold = page.style(POINTS, BLUE, weight="bold")
    labels = 0.2 + page.inches([word for step in steps for _, word in step], bold)
    figures = page.inches(["0.000"], bold)
    notes = [left_in(draw) for draw in draws]
    slot = BETWEEN + max(labels + BAR + figures, page.inches(notes, page.style(SMALL, FAINT)))
    across = min(max(int(PAGE / slot), 1), len(steps))
    rows = [steps[start : start + across] for start in range(0, len(steps), across)]
    heights = [HEAD + FOOT + ROW * max(map(len, row)) + 0.15 for row in rows]
    heading, note = page.style(13, INK), page.style(9, FAINT)
    top = 0.15 + (0.1 + 1.35 * 13 / 72 * (title.count("\n") + 1) if title else 0.0)
    samples = [(kind, words, page.inches([words], note)) for kind, words in SAMPLES]
    width = max(
        0.5 + across * slot - BETWEEN,
        0.4 + page.inches([title], heading) if title else 0.0,
        0.4 + page.inches([EXPLAINED], note),
        0.4 + sum(0.65 + room for _, _, room in samples),
    )
    height = top + 0.7 + sum(heights)
    page.figure.set_size_inches(width, height)
    page.write(0.2, 0.15, title, heading)
    page.write(0.2, top + 0.3, EXPLAINED, note)
    axes = page.axes(0, 0, width, height)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    x = 0.25
    for kind, words, room in samples:
        if kind == "line":
            _line(axes, x, x + 0.32, top + 0.1)
        else:
            _bar(axes, x, top + 0.1, 0.32, taken=kind == "taken", kept=kind != "cut")
        page.write(x + 0.4, top + 0.02, words, note)
        x += 0.65 + room
    for place, (draw, step) in enumerate(zip(draws, steps, strict=True)):
        row, column = divmod(place, across)
        corner = (0.25 + column * slot, top + 0.7 + sum(heights[:row]))
        _panel(axes, page, place + 1, draw, step, corner, labels)
    return page.figure


def _panel(
    axes: Axes,
    page: Page,
    number: int,
    draw: Draw,
    step: list[tuple[int, str]],
    corner: tuple[float, float],
    labels: float,
) -> None:
    """One step: its number, a bar for each candidate, the cut-off and what it left in."""
    left, top = corner
    start = left + labels
    axes.text(left, top + 0.13, f"{number}", ha="left", va="center", **page.style(11, INK, weight="bold"))
    axes.plot([left + 0.3, start + BAR], [top + 0.14] * 2, color=LINES, linewidth=0.8)
    y = top + HEAD
    for place, word in step:
        taken, kept = place == draw.drawn, draw.kept[place]
        style = page.style(POINTS, BLUE if taken else INK if kept else GRAY, weight="bold" if taken else "normal")
        middle = y + ROW / 2
        if taken:
            axes.text(left, middle, "▶", ha="left", va="center", **page.style(SMALL, BLUE))
        if place == cut_off(draw):
            _line(axes, left, start + BAR, y)
        axes.text(start - 0.06, middle, word, ha="right", va="center", **style)
        long = draw.probabilities[place] * BAR
        _bar(axes, start, middle, long, taken=taken, kept=kept, gid=f"{_kind(taken, kept)}-{number}-{place}")
        figure = style | {"fontsize": SMALL}
        axes.text(start + long + 0.05, middle, probability(draw.probabilities[place]), ha="left", va="center", **figure)
        y += ROW
    axes.text(left, y + 0.12, left_in(draw), ha="left", va="center", **page.style(SMALL, FAINT))


def _kind(taken: bool, kept: bool) -> str:
    return "taken" if taken else "kept" if kept else "cut"


def _bar(axes: Axes, x: float, y: float, long: float, *, taken: bool, kept: bool, gid: str | None = None) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": SOLID, "edgecolor": SOLID}
    if taken:
        look = {"facecolor": BLUE, "edgecolor": BLUE}
    elif not kept:
        look = {"facecolor": "none", "edgecolor": FRAME}
    axes.add_patch(Rectangle((x, y - 0.06), max(long, 0.01), 0.12, linewidth=0.8, gid=gid, **look))


def _line(axes: Axes, start: float, end: float, y: float) -> None:
    axes.plot([start, end], [y, y], color="#c0392b", linewidth=1.0, linestyle=(0, (4, 2)))
