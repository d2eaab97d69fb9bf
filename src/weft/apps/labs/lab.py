"""A lab and its result: data, tables, charts and verdict, as text, JSON, files and HTML."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.apps.bench.environment import environment
from weft.apps.labs.registration import registrations
from weft.apps.labs.verdicts import Verdict
from weft.errors import DataError
from weft.files import json_value, save_text
from weft.pictures.charts import Chart, Table

MAX_CLAIM = 100
"""Characters of a claim, which is one line of the list of labs."""


@dataclass(frozen=True)
class Lab:
    """The claim of a lab, its source, and its experiment."""

    name: str
    claim: str
    paper: str
    """The finding of the paper, with its source."""
    trains: str
    """Models to be trained, or quantities to be computed."""
    seconds: int
    """Expected on two cores with three seeds."""
    next: tuple[str, ...]
    """Suggestions for further experiments."""

    @property
    def tested(self) -> str:
        """The claim as it is tested, from PREREGISTERED.md."""
        return registrations()[self.name].tested if self.name in registrations() else self.claim

    @property
    def doubt(self) -> str:
        """The result that would change our mind, from PREREGISTERED.md."""
        return registrations()[self.name].doubt if self.name in registrations() else ""

    def __post_init__(self) -> None:
        if len(self.claim) > MAX_CLAIM:
            raise ValueError(f"{self.name}: its claim has {len(self.claim)} characters; at most {MAX_CLAIM} are shown")


@dataclass(frozen=True, repr=False)
class LabResult:
    """The result of a lab. A notebook shows it as a page; ``print`` as in the terminal."""

    lab: Lab
    verdict: Verdict
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]
    """Corrections and caveats."""
    seeds: tuple[int, ...]
    data: Any
    """All measurements, as values of JSON."""
    quick: bool = False
    """Whether it is the short version."""
    environment: dict[str, str] = field(default_factory=environment)

    def __repr__(self) -> str:
        return f"<LabResult {self.lab.name!r}: {self.verdict.outcome}, {len(self.seeds)} seeds>"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 100, *, heading: bool = True, color: bool = False, ascii_only: bool = False) -> str:
        """Tables, charts, verdict and notes for a terminal; ``heading``: the claim before them."""
        from weft.apps.labs.text import heading_lines, result_lines
        from weft.pictures.terminal import render_lines

        lines = [*(heading_lines(self.lab, width) if heading else ()), *result_lines(self, width, ascii_only)]
        return render_lines(lines, width, color=color, ascii_only=ascii_only)

    def record(self) -> dict[str, Any]:
        """All of it as values of JSON; numbers that are not finite are None."""
        record: dict[str, Any] = json_value(asdict(self))
        for name in ("tables", "charts"):
            record[name] = [item for item in record[name] if not item["varies"]]
        return record

    def to_json(self) -> str:
        """JSON whose bytes depend on nothing but the result."""
        return json.dumps(self.record(), ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "the text") -> LabResult:
        """The result that `to_json` has written."""
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(cls).validate_python(_with_infinities(json.loads(text)))
        except (ValueError, ValidationError):
            raise DataError(f"{where}: not the result of a lab; write one with weft lab NAME --to DIR") from None

    def to_html(self) -> str:
        """A standalone page."""
        from weft.apps.labs.page import result_page

        return str(result_page(self))

    def _repr_html_(self) -> str:
        from weft.apps.labs.page import result_content
        from weft.pictures.html.page import fragment

        return str(fragment(*result_content(self)))

    def save(self, folder: Path | str) -> list[Path]:
        """Write NAME.json, NAME.html and every chart as SVG and PNG into a folder; the paths of the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{self.lab.name}.json", folder / f"{self.lab.name}.html"]
        save_text(paths[0], self.to_json())
        save_text(paths[1], self.to_html())
        for chart in self.charts:
            for suffix in ("svg", "png"):
                paths.append(chart.save(folder / f"{self.lab.name}-{chart.name}.{suffix}"))
        return paths


def _with_infinities(value: Any) -> Any:
    """The inverse of `json_value` for estimates: their limits are numbers."""
    if isinstance(value, list):
        return [_with_infinities(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"mean", "low", "high"}:
        missing = {"mean": math.nan, "low": -math.inf, "high": math.inf}
        return {name: missing[name] if number is None else number for name, number in value.items()}
    return {name: _with_infinities(item) for name, item in value.items()}
