"""The results of the history: numbers, charts and verdicts, as text, JSON and a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.text import Text

from weft.apps.bench.environment import environment
from weft.apps.labs.history.judgment import JudgedClaim, Results, judge_history
from weft.apps.labs.history.models import BY_KEY
from weft.apps.labs.history.task import LENGTHS, LONGEST
from weft.apps.labs.intervals import percent
from weft.apps.labs.text import OUTCOME_STYLES, labeled
from weft.evaluation.statistics import Estimate
from weft.files import save_text
from weft.pictures.charts.chart import Chart, Series
from weft.pictures.charts.table import Row, Table, table_lines
from weft.pictures.charts.terminal import chart_lines

SPEED = ("seconds", "tokens")
"""Measurements that depend on the machine and on what else it does; everything else follows from the seeds."""


@dataclass(frozen=True, repr=False)
class HistoryResult:
    """Measurements of every model with every seed. A notebook shows it as the page."""

    results: Results
    diagonal: list[float]
    """The alignment error rate of the diagonal, of each seed."""
    seeds: tuple[int, ...]
    steps: int
    sentences: int
    """Test sentences per length."""
    quick: bool = False
    environment: dict[str, str] = field(default_factory=environment)

    def __repr__(self) -> str:
        return f"<HistoryResult: {len(self.results)} models, {len(self.seeds)} seeds>"

    def __str__(self) -> str:
        return self.text()

    @property
    def claims(self) -> list[JudgedClaim]:
        return judge_history(self.results, self.diagonal)

    def exact(self, key: str, index: int) -> Estimate:
        """Exact match at one of `LENGTHS`."""
        return percent([row["exact"][index] for row in self.results[key]])

    def error(self, key: str) -> Estimate | None:
        """The alignment error rate; None without attention."""
        rates = [row["error"] for row in self.results[key]]
        return None if None in rates else percent(rates)

    def table(self, *, intervals: bool = True) -> Table:
        """Size, exact match by length and alignment error rate of each model; without intervals it is narrow."""

        def cell(estimate: Estimate | None) -> Estimate | str | None:
            return estimate if intervals or estimate is None else f"{estimate.mean:.0f}"

        rows: list[Row] = [
            (
                BY_KEY[key].name,
                rows[0]["parameters"],
                *(cell(self.exact(key, index)) for index in range(len(LENGTHS))),
                cell(self.error(key)),
            )
            for key, rows in self.results.items()
        ]
        lengths = (f"{length} words" for length in LENGTHS)
        header = ("", "parameters", *lengths, "alignment error rate" if intervals else "AER")
        return Table(header, rows, "Exact match by source length, and alignment error rate (AER), in percent")

    def speed_table(self) -> Table:
        """The training speed of each model; not reproducible."""
        rows: list[Row] = [
            (BY_KEY[key].name, fmean(r["tokens"] / r["seconds"] for r in rows), fmean(r["seconds"] for r in rows))
            for key, rows in self.results.items()
        ]
        return Table(("", "tokens per second", "CPU seconds of a training"), rows)

    def charts(self) -> tuple[Chart, ...]:
        """Exact match by length, and alignment error rates."""
        at_longest = {BY_KEY[key].name: self.exact(key, LONGEST).mean for key in self.results}
        worst, best = (choose(at_longest, key=at_longest.__getitem__) for choose in (min, max))
        title = (
            f"Exact match at {LENGTHS[LONGEST]} words: from {at_longest[worst]:.0f} % ({worst}) "
            f"to {at_longest[best]:.0f} % ({best})"
        )
        series = tuple(
            Series(BY_KEY[key].name, tuple((length, self.exact(key, i)) for i, length in enumerate(LENGTHS)))
            for key in self.results
        )
        charts = [Chart("length", title, "source length (words)", "exact match (%)", series)]
        rates = {BY_KEY[key].name: rate for key in self.results if (rate := self.error(key)) is not None}
        if rates:
            lowest = min(rates, key=lambda name: rates[name].mean)
            title = f"Lowest alignment error rate: {lowest}, {rates[lowest].mean:.1f} %"
            points = tuple(enumerate(rates.values()))
            mean = fmean(self.diagonal)
            charts.append(
                Chart(
                    "alignment", title, "model", "alignment error rate (%)", (Series("", points),),
                    categories=tuple(rates), references=(("diagonal", mean),),
                )
            )  # fmt: skip
        return tuple(charts)

    def text(self, width: int = 100, *, color: bool = False, ascii_only: bool = False) -> str:
        """The table, the charts and the verdicts for a terminal."""
        from weft.apps.labs.history.result import result_lines
        from weft.pictures.terminal import render_lines

        return render_lines([*result_lines(self, width, ascii_only)], width, color=color, ascii_only=ascii_only)

    def record(self) -> dict[str, Any]:
        """For JSON. What is not under "speed" is the same for the same seeds."""
        models = {
            key: [{name: value for name, value in row.items() if name not in SPEED} for row in rows]
            for key, rows in self.results.items()
        }
        speed = {key: [{name: row[name] for name in SPEED} for row in rows] for key, rows in self.results.items()}
        claims = [{"claim": claim, **asdict(verdict)} for claim, verdict in self.claims]
        budget = {"steps": self.steps, "sentences": self.sentences, "lengths": list(LENGTHS), "quick": self.quick}
        return {
            "seeds": list(self.seeds),
            **budget,
            "models": models,
            "diagonal": self.diagonal,
            "claims": claims,
            "speed": speed,
            "environment": self.environment,
        }

    def to_html(self) -> str:
        """The page."""
        from weft.apps.labs.history.page import history_page

        return str(history_page(self))

    def _repr_html_(self) -> str:
        from weft.apps.labs.history.page import history_content
        from weft.pictures.html.page import fragment

        return str(fragment(*history_content(self)))

    def save(self, path: Path | str) -> Path:
        """Write the page."""
        path = Path(path)
        save_text(path, self.to_html())
        return path


def result_lines(result: HistoryResult, width: int, ascii_only: bool) -> Iterator[Text]:
    """Table, charts, verdicts and seeds."""
    yield from table_lines(result.table(intervals=False), width)
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
