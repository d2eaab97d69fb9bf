"""The result of a probe: its numbers, tables and chart, as text, JSON, picture and HTML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.files import json_value, save_text
from weft.pictures.charts import Chart, Table

if TYPE_CHECKING:
    from weft.pictures.html.elements import Content

PAGE = ".html"


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """The result of a probe. A notebook shows it as a page; ``print`` as in the terminal."""

    name: str
    """The name of the probe."""
    data: dict[str, Any]
    """All numbers, as values of JSON."""
    tables: tuple[Table, ...]
    chart: Chart
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ProbeResult {self.name!r}: {self.chart.title}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 100, *, color: bool = False, ascii_only: bool = False) -> str:
        """Tables, chart and notes for a terminal."""
        from rich.text import Text

        from weft.pictures.charts.table import table_lines
        from weft.pictures.charts.terminal import chart_lines
        from weft.pictures.terminal import render_lines

        lines: list[Text] = []
        for table in self.tables:
            lines += [*table_lines(table), Text()]
        lines += chart_lines(self.chart, width, ascii_only=ascii_only)
        lines += [Text(note, style="dim") for note in self.notes]
        return render_lines(lines, width, color=color, ascii_only=ascii_only)

    def to_json(self) -> str:
        """The numbers as JSON; those that are not finite are null."""
        return json.dumps(json_value(self.data), ensure_ascii=False)

    def save(self, path: Path | str) -> Path:
        """Write tables and chart as a page (.html), or draw the chart (.svg, .png or .pdf)."""
        path = Path(path)
        if path.suffix != PAGE:
            return self.chart.save(path)
        save_text(path, self.to_html())
        return path

    def to_html(self) -> str:
        """A standalone page, without scripts and without references to other files."""
        from weft.pictures.html.elements import element
        from weft.pictures.html.page import page

        return str(page(f"{self.name}: weft probe", element("h1", f"Probe: {self.name}"), *self._content()))

    def _repr_html_(self) -> str:
        from weft.pictures.html.page import fragment

        return str(fragment(*self._content()))

    def _content(self) -> list[Content]:
        """Tables, chart and notes as HTML."""
        from weft.apps.labs.page import table_html
        from weft.pictures.charts.html import chart_html
        from weft.pictures.html.elements import element

        notes = (element("p", note, class_="faint small") for note in self.notes)
        return [*map(table_html, self.tables), chart_html(self.chart), *notes]
