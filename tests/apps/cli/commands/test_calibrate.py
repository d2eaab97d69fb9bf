"""``weft calibrate``, and the calibration at the end of ``weft train``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.recipe import Recipe
from weft.recipe.toml import write_toml
from weft.translation.load import load
from weft.translation.translator import Translator

Command = Callable[..., Any]
Refusal = Callable[..., str]
Tiny = Callable[..., Recipe]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    rows = [f"{a} {b} {c}\t{a} {b} {c}\n" for a in "abcd" for b in "abcd" for c in "abcd"]
    path.write_text("".join(rows), "utf-8")
    return path


@pytest.fixture
def run(copier: Translator, tmp_path: Path) -> Path:
    assert copier.folder is not None
    shutil.copytree(copier.folder, tmp_path / "run")
    return tmp_path / "run"


def test_given_pairs(command: Command, run: Path, pairs: Path) -> None:
    lines = command("calibrate", run, pairs, "--right", "exact").stdout.splitlines()
    assert lines[0].startswith("Right: exact match. ") and lines[0].count(" of 64 validation outputs") == 1
    assert lines[2] == "precision target   confidence   outputs accepted" and len(lines) == 7
    assert load(run).confidence is not None


def test_json_and_a_sample(command: Command, run: Path, pairs: Path) -> None:
    record = json.loads(command("calibrate", run, pairs, "--limit", "45", "--json").stdout)
    assert record["outputs"] == 45 and set(record["models"]) == {"tokens", "sequence"}


def test_too_few_pairs_and_a_wrong_criterion(refusal: Refusal, run: Path, pairs: Path) -> None:
    assert refusal("calibrate", run) == "confidence: 20 pairs were given; it is fitted to at least 40"
    assert refusal("calibrate", run, pairs, "--right", "bleu").startswith(
        "right: 'bleu' was given; use exact, chrf, or"
    )


@pytest.mark.parametrize("size", [50, 20])
def test_training_ends_with_a_calibration_if_there_are_pairs_for_it(
    command: Command, tiny: Tiny, tmp_path: Path, size: int
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        write_toml(tiny({"data.valid_size": size, "training.steps": 2, "training.validate_every": 2})), "utf-8"
    )
    command("train", recipe, "--out", tmp_path / "trained")
    assert (tmp_path / "trained" / "confidence.json").is_file() == (size == 50)


def test_in_python_too(tiny: Tiny, tmp_path: Path) -> None:
    import weft

    list(
        weft.train(
            tiny({"data.valid_size": 50, "training.steps": 2, "training.validate_every": 2}), tmp_path / "trained"
        )
    )
    assert weft.load(tmp_path / "trained").confidence is not None
