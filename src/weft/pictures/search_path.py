"""The path of greedy search or sampling: the candidates of every step, those that the filters kept, the chosen one.

The length of a bar is the probability of its token, on one scale for all steps: solid if the sampling filters (top-k,
top-p, …) kept the token, hollow if they removed it, with a line at the cutoff. `terminal_path` writes the steps one
below the other, `draw_path` side by side as SVG, PNG or PDF.

Known limits: those of `attention_map` for scripts and fonts. Only the candidates in the trace are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from weft.errors import DataError
from weft.pictures.labels import caption, left_to_right, shorten, visible
from weft.pictures.picture import BLUE, FAINT, FRAME, GRAY, INK, LINES, Page, title_height, write_picture
from weft.pictures.terminal import STYLES, Label, printable, render_lines
from weft.search.trace import Draw, PathTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_CANDIDATES = 8
"""Candidates of a step that are shown; the chosen one always is."""
LEAST_PROBABILITY = 0.0005
"""Less would be shown as 0.000."""
LONGEST_LABEL = 16


def cutoff(draw: Draw) -> int | None:
    """The index of the first candidate below the cutoff; None if no line separates the kept ones from the others.

    A token that a constraint forbids may be more probable than one that is kept: then there is no such line.
    """
    falls = [index for index, (above, below) in enumerate(pairwise(draw.kept), 1) if above and not below]
    return falls[0] if len(falls) == 1 and draw.kept[0] and not any(draw.kept[falls[0] :]) else None


def candidates(draw: Draw, most: int) -> list[int]:
    """Indices of the candidates to show: the most probable and the chosen one; after two, none near 0."""
    indices = [index for index, p in enumerate(draw.probabilities[:most]) if index < 2 or p >= LEAST_PROBABILITY]
    return indices if draw.chosen in indices else [*indices[: most - 1], draw.chosen]


def probability(p: float) -> str:
    return f"{p:.3f}" if p >= LEAST_PROBABILITY else "<.001"


def kept_summary(draw: Draw) -> str:
    """The number of tokens that the filters kept, and their total probability."""
    return f"{draw.kept_count:,} token{'s' * (draw.kept_count != 1)} kept, p {draw.mass:.2f}"


# In a terminal

LEGEND = "▶ chosen   █ kept   ░ removed by a filter   p: probability of the token (all bars: 0 to 1)"
EIGHTHS = "▏▎▍▌▋▊▉"


class Columns(NamedTuple):
    """The widths of a step's lines, in terminal cells."""

    label: int
    bar: int


def terminal_path(
    trace: PathTrace,
    label: Label,
    *,
    width: int = 80,
    color: bool = False,
    most: int = MAX_CANDIDATES,
    ascii_only: bool = False,
) -> str:
    """The steps as lines of at most `width` cells, with a legend; `color` adds ANSI codes."""
    if not trace.steps:
        return "The search made no step: there is no path.\n"
    text = printable(label, ascii_only)
    tokens = {token for draw in trace.steps for token in draw.tokens}
    label_width = min(max(cell_len(text(token)) for token in tokens), LONGEST_LABEL, max(width // 4, 4))
    columns = Columns(label_width, max(min(width - label_width - 11, 50), 4))
    lines = [
        line for number, draw in enumerate(trace.steps, 1) for line in _step_lines(number, draw, text, columns, most)
    ]
    return render_lines([*lines, Text(LEGEND, style="dim")], width, color=color, ascii_only=ascii_only)


def _step_lines(number: int, draw: Draw, label: Label, columns: Columns, most: int) -> Iterator[Text]:
    """A heading, a line for each candidate, and the cutoff between them."""
    yield Text.assemble((f"step {number}", "bold"), (f"   {kept_summary(draw)}", STYLES["secondary"]))
    indices = candidates(draw, most)
    for index in indices:
        if index == cutoff(draw):
            rule = "  " + "─" * (columns.label + 1) + " cutoff " + "─" * max(columns.bar - 1, 0)
            yield Text(rule, style=STYLES["pruned"])
        elif index == indices[-1] and index != len(indices) - 1:
            yield Text("  …", style=STYLES["pruned"])
        word = left_to_right(shorten(label(draw.tokens[index]), columns.label))
        chosen, kept = index == draw.chosen, draw.kept[index]
        p = draw.probabilities[index]
        start = f"{'▶' if chosen else ' '} {word}{' ' * (columns.label - cell_len(word))} {probability(p)} "
        style = STYLES["best"] if chosen else "" if kept else STYLES["pruned"]
        yield Text(start + _bar_characters(p * columns.bar, kept), style=style)
    yield Text()


def _bar_characters(cells: float, kept: bool) -> str:
    """A bar of this many cells, to an eighth of one if it is solid."""
    if not kept:
        return "░" * round(cells) or "·"
    whole, eighths = divmod(round(cells * 8), 8)
    return "█" * whole + (EIGHTHS[eighths - 1] if eighths else "") or EIGHTHS[0]


# As a picture

PAGE = 13.0
"""Inches that the steps of one row share."""
ROW, HEAD, FOOT, BAR, SPACING = 0.2, 0.34, 0.3, 1.1, 0.25
"""Inches of a candidate, above and below the candidates, of a bar for p = 1, and between steps."""
SOLID = "#6baed6"
POINTS, SMALL = 8.5, 7.5
EXPLANATION = "Bars: the probability of each candidate, 0 to 1."
SAMPLES = (("chosen", "chosen"), ("kept", "kept"), ("removed", "removed by a filter"), ("line", "the cutoff"))


class Panel(NamedTuple):
    """One step to draw: its number from 1, and the candidates to show as (index, label)."""

    number: int
    draw: Draw
    candidates: list[tuple[int, str]]


def draw_path(trace: PathTrace, label: Label, to: str | Path, *, title: str = "", most: int = MAX_CANDIDATES) -> Path:
    """Write the steps as a picture, in the format of the path's suffix: .svg, .png or .pdf.

    The same trace gives the same bytes.
    """
    if not trace.steps:
        raise DataError("the search made no step; expected a trace of at least 1")
    panels = [
        Panel(
            number,
            draw,
            [(index, shorten(visible(label(draw.tokens[index])), LONGEST_LABEL)) for index in candidates(draw, most)],
        )
        for number, draw in enumerate(trace.steps, 1)
    ]
    heading = caption(title)
    texts = [heading, *(text for panel in panels for _, text in panel.candidates)]
    return write_picture(to, texts, lambda families: _figure(panels, heading, families))


def _figure(panels: list[Panel], title: str, families: list[str]) -> Figure:
    """The picture: title, legend, and the steps in rows, as many side by side as fit."""
    page = Page.blank(families)
    bold, note = page.style(POINTS, BLUE, weight="bold"), page.note_style
    label_width = 0.2 + page.width_of([text for panel in panels for _, text in panel.candidates], bold)
    summaries = page.width_of([kept_summary(panel.draw) for panel in panels], page.style(SMALL, FAINT))
    slot = SPACING + max(label_width + BAR + page.width_of(["0.000"], bold), summaries)
    across = min(max(int(PAGE / slot), 1), len(panels))
    rows = [panels[start : start + across] for start in range(0, len(panels), across)]
    heights = [HEAD + FOOT + ROW * max(len(panel.candidates) for panel in row) + 0.15 for row in rows]
    top = 0.15 + title_height(title)
    samples = [(kind, text, page.width_of([text], note)) for kind, text in SAMPLES]
    width = max(
        0.5 + across * slot - SPACING,
        0.4 + page.width_of([title], page.title_style) if title else 0.0,
        0.4 + page.width_of([EXPLANATION], note),
        0.4 + sum(0.65 + text_width for _, _, text_width in samples),
    )
    axes = page.canvas(width, top + 0.7 + sum(heights))
    page.write(0.2, 0.15, title, page.title_style)
    page.write(0.2, top + 0.3, EXPLANATION, note)
    x = 0.25
    for kind, text, text_width in samples:
        if kind == "line":
            _draw_cutoff(axes, x, x + 0.32, top + 0.1)
        else:
            _draw_bar(axes, (x, top + 0.1), 0.32, kind)
        page.write(x + 0.4, top + 0.02, text, note)
        x += 0.65 + text_width
    for index, panel in enumerate(panels):
        row, column = divmod(index, across)
        corner = (0.25 + column * slot, top + 0.7 + sum(heights[:row]))
        _draw_panel(axes, page, panel, corner, label_width)
    return page.figure


def _draw_panel(axes: Axes, page: Page, panel: Panel, corner: tuple[float, float], label_width: float) -> None:
    """One step: its number, a bar for each candidate, the cutoff and a summary of what was kept."""
    draw, (left, top) = panel.draw, corner
    start = left + label_width
    axes.text(left, top + 0.13, f"{panel.number}", ha="left", va="center", **page.style(11, INK, weight="bold"))
    axes.plot([left + 0.3, start + BAR], [top + 0.14] * 2, color=LINES, linewidth=0.8)
    y = top + HEAD
    for index, text in panel.candidates:
        chosen, kept, p = index == draw.chosen, draw.kept[index], draw.probabilities[index]
        kind = "chosen" if chosen else "kept" if kept else "removed"
        color = {"chosen": BLUE, "kept": INK, "removed": GRAY}[kind]
        style = page.style(POINTS, color, weight="bold" if chosen else "normal")
        middle = y + ROW / 2
        if chosen:
            axes.text(left, middle, "▶", ha="left", va="center", **page.style(SMALL, BLUE))
        if index == cutoff(draw):
            _draw_cutoff(axes, left, start + BAR, y)
        axes.text(start - 0.06, middle, text, ha="right", va="center", **style)
        _draw_bar(axes, (start, middle), p * BAR, kind, gid=f"{kind}-{panel.number}-{index}")
        number_style = style | {"fontsize": SMALL}
        axes.text(start + p * BAR + 0.05, middle, probability(p), ha="left", va="center", **number_style)
        y += ROW
    axes.text(left, y + 0.12, kept_summary(draw), ha="left", va="center", **page.style(SMALL, FAINT))


def _draw_bar(axes: Axes, start: tuple[float, float], length: float, kind: str, *, gid: str | None = None) -> None:
    from matplotlib.patches import Rectangle

    styles: dict[str, dict[str, Any]] = {
        "chosen": {"facecolor": BLUE, "edgecolor": BLUE},
        "kept": {"facecolor": SOLID, "edgecolor": SOLID},
        "removed": {"facecolor": "none", "edgecolor": FRAME},
    }
    x, y = start
    axes.add_patch(Rectangle((x, y - 0.06), max(length, 0.01), 0.12, linewidth=0.8, gid=gid, **styles[kind]))


def _draw_cutoff(axes: Axes, start: float, end: float, y: float) -> None:
    axes.plot([start, end], [y, y], color="#c0392b", linewidth=1.0, linestyle=(0, (4, 2)))
