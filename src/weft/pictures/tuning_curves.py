"""The curves of a tuning run: the validation score of each candidate against the step, and where halvings were.

`draw_curves` writes SVG, PNG or PDF, `terminal_curves` shows a line for each candidate in the terminal:

    wider        ▁▄▆▆▇███   45.20  finished
    recipe       ▁▃▅▅▆▇▇▇   44.71  finished
    rate-0.004   ▁▂         31.02  stopped at step 500

All lines of a terminal share one scale from the worst score to the best; a higher bar is always better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from weft.errors import DataError
from weft.pictures.labels import caption
from weft.pictures.picture import FAINT, FRAME, INK, LINES, Page, title_height, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weft.apps.tuning.result import CandidateResult, TuningResult

PALETTE = ("#08519c", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#17becf", "#666666")
"""Colors of the candidates, the best first; as distinct as nine colors can be, after ColorBrewer's Dark2."""
BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = ".:-=+*%#"
WIDTH, HEIGHT = 6.4, 3.8
"""Inches of the panel."""


def draw_curves(result: TuningResult, to: str | Path, *, title: str = "") -> Path:
    """Write the curves in the format of the path's suffix: .svg, .png or .pdf."""
    shown = drawn_candidates(result)
    if not shown:
        raise DataError("no candidate of this tuning run was validated; there is nothing to draw")
    heading = caption(title)
    texts = [heading, *(candidate.name for candidate in shown)]
    return write_picture(to, texts, lambda families: _figure(result, shown, heading, families))


def drawn_candidates(result: TuningResult) -> list[CandidateResult]:
    """Candidates with at least one finite validation value."""
    return [candidate for candidate in result.candidates if any(math.isfinite(value) for _, value in candidate.curve)]


def score_limits(result: TuningResult) -> tuple[float, float]:
    """The range of scores to show: outliers of the first validations are cut off.

    From the worst score of those after the first validation of each candidate, to the best of all.
    """
    curves = [[value for _, value in c.curve if math.isfinite(value)] for c in drawn_candidates(result)]
    later = [value for curve in curves for value in (curve[1:] or curve)]
    return min(later), max(later)


def _figure(result: TuningResult, shown: Sequence[CandidateResult], title: str, families: list[str]) -> Figure:
    page = Page.blank(families)
    left, top, gap = 0.75, 0.2 + title_height(title), 0.2
    label = page.style(9, INK)
    names = [f"{candidate.name}  {candidate.state}" for candidate in shown]
    legend = page.width_of([*names, "halving"], label) + 0.5
    width = max(left + WIDTH + gap + legend, 0.4 + page.width_of([title], page.title_style))
    page.figure.set_size_inches(width, top + HEIGHT + 0.65)
    page.write(0.2, 0.15, title, page.title_style)
    axes = page.axes(left, top, WIDTH, HEIGHT)
    _draw_axes(page, axes, result)
    for number, candidate in enumerate(shown):
        color = PALETTE[number % len(PALETTE)]
        points = [(step, value) for step, value in candidate.curve if math.isfinite(value)]
        steps, values = zip(*points, strict=True)
        is_best = candidate is result.best
        axes.plot(steps, values, color=color, linewidth=2.4 if is_best else 1.3, zorder=5 if is_best else 3)
        marker = "o" if candidate.state == "finished" else "x"
        axes.plot(steps[-1:], values[-1:], marker, color=color, markersize=5 if marker == "o" else 6, zorder=6)
        _legend_entry(page, (left + WIDTH + gap, top + 0.1 + 0.22 * number), candidate, color)
    return page.figure


def _draw_axes(page: Page, axes: Axes, result: TuningResult) -> None:
    low, high = score_limits(result)
    margin = 0.06 * (high - low) or 1.0
    axes.set_xlim(0, result.steps * 1.02)
    axes.set_ylim(low - margin, high + margin)
    for number, step in enumerate(result.rungs[:-1], 1):
        axes.axvline(step, color=FRAME, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        text = page.style(8, FAINT)
        axes.text(
            step, 1.01, f"halving {number}", ha="center", va="bottom", transform=axes.get_xaxis_transform(), **text
        )
    note = page.style(9, FAINT)
    axes.set_xlabel("step", **note)
    axes.set_ylabel(f"validation {result.metric} ({result.better} is better)", **note)
    axes.grid(color=LINES, linewidth=0.5, axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(length=2.5, pad=2, labelsize=8, color=FRAME, labelcolor=INK)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.6)


def _legend_entry(page: Page, corner: tuple[float, float], candidate: CandidateResult, color: str) -> None:
    x, y = corner
    page.write(x, y, "●" if candidate.state == "finished" else "×", page.style(9, color, weight="bold"))
    page.write(x + 0.2, y, f"{candidate.name}  {candidate.state}", page.style(9, INK))


def terminal_curves(result: TuningResult) -> TerminalCurves:
    """The curves for rich's `print`."""
    return TerminalCurves(result)


@dataclass(frozen=True)
class TerminalCurves:
    """Curves to print; their layout is made when the width is known."""

    result: TuningResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from curve_lines(self.result, options.max_width, ascii_only=options.ascii_only)


def curve_lines(result: TuningResult, width: int, *, ascii_only: bool) -> Iterator[Text]:
    """A line for each candidate, as many columns as there are validations, or as fit."""
    shown = drawn_candidates(result)
    if not shown:
        return
    names = max(len(candidate.name) for candidate in shown) + 2
    columns = max(len(candidate.curve) for candidate in shown)
    columns = min(columns * 2, max(width - names - 34, 8))
    low, high = score_limits(result)
    worst, best = (low, high) if result.better == "higher" else (high, low)
    bars = ASCII_BARS if ascii_only else BARS
    for candidate in shown:
        line = Text(f"{candidate.name:<{names}}", style="bold" if candidate is result.best else "")
        line.append(sparkline(candidate.curve, columns, result.steps, (worst, best), bars), style="cyan")
        where = "finished" if candidate.state == "finished" else f"{candidate.state} at step {candidate.step:,}"
        value = "" if candidate.value is None else f"{candidate.value:.3g}"
        line.append(f"  {value:>8}  {where}")
        yield line
    digits = ".3f" if result.metric == "loss" else ".2f"
    yield Text(
        f"validation {result.metric} from {worst:{digits}} to {best:{digits}}; "
        f"steps 1 to {result.steps:,}, halvings at {', '.join(f'{step:,}' for step in result.rungs[:-1]) or 'none'}",
        style="dim",
    )


def sparkline(
    curve: Sequence[tuple[int, float]], columns: int, steps: int, limits: tuple[float, float], bars: str
) -> str:
    """Each column is the next validation after its steps, from the worst (lowest bar) to the best of the limits."""
    worst, best = limits
    cells = []
    for column in range(1, columns + 1):
        end = steps * column / columns
        value = next((value for step, value in curve if step >= end - 1e-6), math.nan)
        if not math.isfinite(value):
            cells.append(" ")
            continue
        share = 1.0 if best == worst else (value - worst) / (best - worst)
        cells.append(bars[min(max(int(share * len(bars)), 0), len(bars) - 1)])
    return "".join(cells)
