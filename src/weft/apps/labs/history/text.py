"""The history as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from weft.apps.labs.text import OUTCOME_STYLES, labeled
from weft.pictures.charts.table import table_lines
from weft.pictures.charts.terminal import chart_lines

if TYPE_CHECKING:
    from weft.apps.labs.history.result import HistoryResult


def result_lines(result: HistoryResult, width: int, ascii_only: bool) -> Iterator[Text]:
    """Table, charts, verdicts and seeds."""
    yield from table_lines(result.table(intervals=False))
    for chart in result.charts():
        yield Text()
        yield from chart_lines(chart, width, ascii_only=ascii_only)
    for claim, verdict in result.claims:
        yield Text()
        yield Text(claim, style="bold")
        yield from labeled("", f"{verdict.outcome}. {verdict.sentence}", width, OUTCOME_STYLES[verdict.outcome])
    seeds = ", ".join(map(str, result.seeds))
    yield Text()
    yield from labeled("Seeds", f"{seeds}; {result.steps:,} updates of each model", width)
