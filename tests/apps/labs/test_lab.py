"""A result: JSON and back, files, and what it shows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from weft.apps.labs.lab import Lab, LabResult
from weft.errors import DataError


def test_json_and_back(result: LabResult) -> None:
    text = result.to_json()
    again = LabResult.from_json(text)
    assert again.verdict == result.verdict and again.lab == result.lab and again.charts == result.charts
    assert again.verdict.checks[1].effect.low == -math.inf
    assert json.loads(again.to_json()) == json.loads(text)
    assert LabResult.from_json(again.to_json()).to_json() == again.to_json()
    assert json.loads(text)["data"] == [{"seed": 1, "exact": None}]
    assert list(json.loads(text)) == sorted(json.loads(text))


@pytest.mark.parametrize("text", ["", "[]", '{"lab": 1}'])
def test_something_else(text: str) -> None:
    with pytest.raises(DataError, match=r"^a\.json: not the result of a lab; write one with weft lab NAME --to DIR$"):
        LabResult.from_json(text, "a.json")


def test_files(result: LabResult, tmp_path: Path) -> None:
    result = replace(result, charts=result.charts[:1])
    folder = tmp_path / "new" / "labs"
    paths = result.save(folder)
    assert [path.name for path in paths] == [
        *("example.json", "example.html", "example-length.svg", "example-length.png"),
    ]
    assert paths[0].read_text("utf-8") == result.to_json() and paths[1].read_text("utf-8") == result.to_html()
    assert sorted(folder.iterdir()) == sorted(paths)


def test_what_it_shows(result: LabResult) -> None:
    assert repr(result) == "<LabResult 'example': inconclusive, 2 seeds>"
    assert str(result).startswith("example: Attention helps at 100 words\n")
    assert "example:" not in result.text(heading=False).splitlines()[0]
    assert result._repr_html_().startswith('<div class="weft">') and result.to_html().startswith("<!DOCTYPE html>")


def test_a_claim_is_one_line(result: LabResult) -> None:
    with pytest.raises(ValueError, match="its claim has 101 characters; at most 100 are shown"):
        replace(result.lab, claim="x" * 101)
    assert isinstance(result.lab, Lab)
