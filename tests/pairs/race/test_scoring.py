"""Models on the same validation items."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.made_up_races import make_candidate
from weft.pairs.race.scoring import is_better, score_runs


@pytest.mark.parametrize(
    ("value", "other", "metric", "better"),
    [
        (2.0, 1.0, "bleu", True),
        (1.0, 1.0, "bleu", False),
        (1.0, 2.0, "item_error_rate", True),
        (2.0, 1.0, "loss", False),
        (None, 1.0, "bleu", False),
        (1.0, None, "bleu", True),
        (None, None, "bleu", False),
    ],
)
def test_better(value: float | None, other: float | None, metric: str, *, better: bool) -> None:
    assert is_better(value, other, metric) == better


def test_the_loss_is_that_of_training(tmp_path: Path) -> None:
    recipe = make_candidate("a", metric="loss").recipe
    (tmp_path / "metrics.json").write_text(json.dumps({"validation": {"loss": 1.5}}))
    assert score_runs([tmp_path], recipe) == 1.5
    assert score_runs([tmp_path, tmp_path], recipe) is None
    (tmp_path / "metrics.json").write_text(json.dumps({"validation": None}))
    assert score_runs([tmp_path], recipe) is None


def test_a_run_that_cannot_be_loaded_has_no_score(tmp_path: Path) -> None:
    assert score_runs([tmp_path], make_candidate("a").recipe) is None
