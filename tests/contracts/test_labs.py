"""What holds for every lab: its file, its description, and a tiny run of it that gives the same bytes twice.

A new lab needs its row in `TINY`: the options that make it small.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from weft.apps import labs
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.verdicts import OUTCOMES
from weft.evaluation.statistics import Estimate

MAX_LINES = 150
SHARED = {"__init__", "intervals", "lab", "page", "registration", "text", "training", "trials", "verdicts"} | {
    *(
        "comparisons",
        "detection",
        "graph_paths",
        "letters",
        "merge_ties",
        "professions",
        "short_sentences",
        "word_translator",
        "word_alignment_baselines",
    ),
}
"""Files that are not a lab."""
TINY: dict[str, dict[str, Any]] = {
    "gradients": {"steps": 6},
    "bottleneck": {"widths": (4, 8), "steps": 6},
    "scores": {"scores": ("dot",), "steps": 2, "sentences": 2},
    "alignment": {"scores": ("dot",), "steps": 2, "sentences": 10},
    "depth": {"layers": (1, 2), "sides": ("encoder",), "steps": 6},
    "exposure": {"steps": 6},
    "heads": {"heads": 1, "layers": 1, "steps": 2, "sentences": 2},
    "distance": {"lengths": (4, 8, 12, 16)},
    "search": {"steps": 2, "sentences": 5},
    "repetition": {"steps": 4, "prompts": 4},
    "subwords": {"steps": 12},
    "bias": {"steps": 24},
    "statistical": {"sizes": (20, 40), "steps": 2, "sentences": 5},
    "lengths": {"steps": 6},
    "norms": {"steps": 6, "layers": 1},
    "layers": {"steps": 6},
    "between": {"steps": 2, "sentences": 4},
    "lookahead": {"steps": 6, "sentences": 20},
    "cost": {"shorter": 8, "width": 8, "repeats": 1},
    "scaling": {"widths": (4, 16), "queries": 8},
    "order": {"steps": 4, "pairs": (40, 8)},
}
"""Options of each lab with which a run of two seeds takes a fraction of a second."""
SLOW: set[str] = {*labs.LABS} - {"cost", "distance", "scaling"}
"""Labs that take a second or more even so, because they train several models."""
TIMED = {"cost"}
"""Labs whose verdict is about seconds, which no run repeats."""
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in labs.LABS]


def module_of(name: str) -> Any:
    return importlib.import_module(f"weft.apps.labs.{name}")


def test_every_lab_is_in_the_table() -> None:
    files = {path.stem for path in Path(labs.__file__).parent.glob("*.py")} - SHARED
    assert files == set(labs.LABS) == set(TINY)
    assert all(getattr(labs, name) is function for name, function in labs.LABS.items())
    assert set(labs.LABS) <= set(labs.__all__)


@pytest.mark.parametrize("name", labs.LABS)
def test_its_file(name: str) -> None:
    module = module_of(name)
    source = Path(module.__file__).read_text("utf-8")
    assert source.count("\n") <= MAX_LINES, f"{name}: at most {MAX_LINES} lines"
    docstring = ast.get_docstring(ast.parse(source)) or ""
    assert len(docstring.splitlines()) >= 6, f"{name}: its docstring explains it to a student"
    assert (Path(__file__).parents[1] / "apps" / "labs" / f"test_{name}.py").is_file()


@pytest.mark.parametrize("name", labs.LABS)
def test_its_description(name: str) -> None:
    lab = labs.find_lab(name)
    assert isinstance(lab, Lab) and lab.name == name
    assert 0 < lab.seconds <= 120, f"{name}: at most two minutes"
    assert lab.paper and lab.trains.endswith(".") and lab.next and not lab.claim.endswith(".")
    parameters = inspect.signature(labs.LABS[name]).parameters
    assert [*parameters][:2] == ["seeds", "quick"] and parameters["seeds"].default == 3
    assert parameters["quick"].default is False


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.apps.labs.trials.worker_count", lambda: 0)
    result = labs.LABS[name](2, quick=True, **TINY[name])
    assert result.lab == labs.find_lab(name) and result.seeds == (1, 2) and result.quick
    assert result.verdict.outcome in OUTCOMES and result.verdict.sentence.endswith(".")
    assert result.charts and result.tables and (result.data or name in TIMED)
    assert max(map(cell_len, result.text(80).splitlines())) <= 80
    assert f"Tested    {result.lab.tested[:40]}" in result.text(80) and result._repr_html_()
    assert_within_range(result)
    again = LabResult.from_json(result.to_json())
    assert json.loads(again.to_json()) == json.loads(result.to_json())
    if name not in TIMED:
        assert labs.LABS[name](2, quick=True, **TINY[name]).to_json() == result.to_json(), f"{name}: not the same bytes"


def assert_within_range(result: LabResult) -> None:
    """Estimates in percent and in points stay where percentages and their differences can be."""
    labeled = [(check.what, check.effect) for check in result.verdict.checks]
    labeled += [
        (f"{table.header[column]} {table.caption}", cell)
        for table in result.tables
        for row in table.rows
        for column, cell in enumerate(row)
        if isinstance(cell, Estimate)
    ]
    for label, estimate in labeled:
        is_share = re.search(r"%|percent", label) and "% of" not in label
        low, high = (0, 100) if is_share else (-100, 100) if "points" in label else (-math.inf, math.inf)
        if math.isfinite(estimate.high - estimate.low):
            assert low <= estimate.low <= estimate.high <= high, f"{label}: {estimate}"


def test_listing_them_does_not_import_torch() -> None:
    code = "import sys, weft; [weft.labs.find_lab(name) for name in weft.labs.LABS]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
