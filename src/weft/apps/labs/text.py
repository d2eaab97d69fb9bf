"""A lab and its result as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rich.text import Text

from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.verdicts import HELD, INCONCLUSIVE, NOT_HELD, Outcome
from weft.pictures.charts.table import table_lines
from weft.pictures.charts.terminal import chart_lines

OUTCOME_STYLES: dict[Outcome, str] = {HELD: "bold green", NOT_HELD: "bold red", INCONCLUSIVE: "bold yellow"}
LABEL = 10
"""Columns of the labels before paragraphs."""
MAX_PROSE = 100


def heading_lines(lab: Lab, width: int) -> Iterator[Text]:
    """Name and claim."""
    for line in wrap(f"{lab.name}: {lab.claim}", min(width, MAX_PROSE)):
        yield Text(line, style="bold")


def result_lines(result: LabResult, width: int, ascii_only: bool) -> Iterator[Text]:
    """Tables, charts, the claim as tested, verdict, paper, what would change the verdict, notes, what to try next."""
    for table in result.tables:
        yield Text()
        yield from table_lines(table, width)
    for chart in result.charts:
        yield Text()
        yield from chart_lines(chart, width, ascii_only=ascii_only)
    verdict = result.verdict
    yield Text()
    yield from labeled("Tested", result.lab.tested, width)
    yield from labeled("Verdict", f"{verdict.outcome}. {verdict.sentence}", width, OUTCOME_STYLES[verdict.outcome])
    for check in verdict.checks:
        yield from labeled("", f"• {check}", width)
    yield from labeled("Seeds", seeds_text(result), width)
    yield from labeled("Paper", result.lab.paper, width)
    if result.lab.doubt:
        yield from labeled("Doubt", result.lab.doubt, width)
    for index, note in enumerate(result.notes):
        yield from labeled("Notes" if not index else "", note, width)
    for index, idea in enumerate(result.lab.next):
        yield from labeled("Next" if not index else "", idea, width)


def labeled(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    """A paragraph after its label; ``style``: the label's."""
    parts = wrap(text, max(min(width, MAX_PROSE) - LABEL, 30), break_long_words=False)
    for index, part in enumerate(parts):
        heading = f"{label:<{LABEL}}" if not index else " " * LABEL
        yield Text(heading, style=style or "bold").append(part, style="not bold default")


def seeds_text(result: LabResult) -> str:
    """The seeds, and whether it was a quick run."""
    seeds = ", ".join(map(str, result.seeds)) or "none"
    short = "; a quick run with less training, so its verdict is weaker evidence" if result.quick else ""
    return f"{seeds}; intervals of 95 % over seeds{short}" if len(result.seeds) > 1 else f"{seeds}{short}"
