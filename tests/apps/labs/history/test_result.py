"""The result of the history: tables, charts, text, JSON and notebook."""

from __future__ import annotations

import json
from pathlib import Path

from weft.apps.labs.history.result import HistoryResult


def test_table(result: HistoryResult) -> None:
    table = result.table()
    assert table.header[0] == "" and table.header[1] == "parameters" and table.header[-1] == "alignment error rate"
    assert [row[0] for row in table.rows][:2] == ["Sutskever 2014", "Cho 2014"]
    assert table.rows[0][-1] is None and table.rows[2][1] == 250_000


def test_charts(result: HistoryResult) -> None:
    length, alignment = result.charts()
    assert len(length.series) == 6 and length.title.startswith("Exact match at 8 words: from 0 % (")
    assert len(alignment.categories) == 4 and alignment.references[0][0] == "diagonal"


def test_speeds_are_apart_in_json(result: HistoryResult) -> None:
    record = json.loads(json.dumps(result.record()))
    assert set(record["models"]["today"][0]) == {"exact", "error", "parameters", "map"}
    assert record["speed"]["today"][0] == {"seconds": 10.0, "tokens": 300_000}
    assert [claim["outcome"] for claim in record["claims"]] == ["held"] * 4


def test_text(result: HistoryResult) -> None:
    lines = result.text(90).splitlines()
    assert any("Today's parts" in line for line in lines)
    assert sum(line.strip().startswith("held.") for line in lines) == 4
    assert lines[-1] == "Seeds     1, 2, 3; 500 updates of each model"
    assert result.text(90, ascii_only=True).isascii()


def test_it_is_saved_and_shown(result: HistoryResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "history.html")
    assert path.read_text("utf-8") == result.to_html()
    assert result._repr_html_().startswith('<div class="weft">') and repr(result).startswith("<HistoryResult: 6 models")
