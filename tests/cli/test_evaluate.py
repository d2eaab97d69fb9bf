"""``weft evaluate``: which of the recipe's pairs it measures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]


@pytest.mark.parametrize(("options", "pairs"), [([], 20), (["--split", "test"], 20), (["--split", "valid"], 13)])
def test_the_split_that_is_asked_for(command: Command, runs: Runs, options: list[str], pairs: int) -> None:
    found = json.loads(command("evaluate", runs("lstm"), *options, "--json")[0])
    assert found["pairs"] == pairs


def test_the_loss_of_validation_is_that_of_training(command: Command, finished: Path) -> None:
    """The perplexity of the weights to use is that of the best validation."""
    log = [json.loads(line) for line in (finished / "log.jsonl").read_text("utf-8").splitlines()]
    best = min(line["perplexity"] for line in log if line["event"] == "validation")
    found = json.loads(command("evaluate", finished, "--split", "valid", "--json")[0])
    assert found["metrics"]["perplexity"]["value"] == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("split", ["train", "dev", ""])
def test_another_is_refused(refusal: Callable[..., str], runs: Runs, split: str) -> None:
    assert refusal("evaluate", runs("lstm"), "--split", split) == f"--split {split}: use test or valid"


def test_a_recipe_without_it(refusal: Callable[..., str], tiny: Callable[..., object], tmp_path: Path) -> None:
    from weft.trainer import train

    (tmp_path / "pairs.tsv").write_text("a b\tb a\nc\td\n", "utf-8")
    list(train(tiny({"data.train": str(tmp_path / "pairs.tsv"), "training.steps": 1}), tmp_path / "run"))  # type: ignore[arg-type]
    message = "data.valid: the recipe names no valid pairs; set data.valid, or give a file"
    assert refusal("evaluate", tmp_path / "run", "--split", "valid") == message
