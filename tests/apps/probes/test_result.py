"""The result of a probe as text, JSON, picture and HTML."""

from __future__ import annotations

import json
import math
from pathlib import Path

from weft.apps.probes import ProbeResult
from weft.pictures.charts import Chart, Series, Table

CHART = Chart("toy", "A toy rises", "copy", "p", (Series("p", ((1, 0.1), (2, 0.4))),))
RESULT = ProbeResult(
    "toy", {"p": [0.1, math.nan]}, (Table(("copy", "p"), [("1", 0.1), ("2", 0.4)]),), CHART, ("Note.",)
)


def test_text() -> None:
    lines = str(RESULT).splitlines()
    assert lines[0].split() == ["copy", "p"] and lines[-1] == "Note." and "A toy rises" in lines
    assert RESULT.text(60, ascii_only=True).isascii() and "\x1b" in RESULT.text(color=True)
    assert repr(RESULT) == "<ProbeResult 'toy': A toy rises>"


def test_json_has_null_for_what_is_not_finite() -> None:
    assert json.loads(RESULT.to_json()) == {"p": [0.1, None]}


def test_picture_and_html(tmp_path: Path) -> None:
    path = RESULT.save(tmp_path / "toy.svg")
    assert "A toy rises" in path.read_text("utf-8")
    page = RESULT.save(tmp_path / "toy.html").read_text("utf-8")
    for html in (RESULT._repr_html_(), page):
        assert "A toy rises" in html and "<table" in html and "Note." in html
    assert page == RESULT.to_html() and page.startswith("<!DOCTYPE html>") and "<script" not in page
