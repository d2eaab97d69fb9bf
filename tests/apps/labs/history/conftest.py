"""A result that no model had to be trained for."""

from __future__ import annotations

from typing import Any

import pytest

from weft.apps.labs.history.models import MODELS
from weft.apps.labs.history.result import HistoryResult
from weft.apps.labs.history.task import LENGTHS

Rows = list[dict[str, Any]]
EXACT = {
    "sutskever2014": 10.0,
    "cho2014": 30.0,
    "bahdanau2015": 90.0,
    "luong2015": 80.0,
    "transformer2017": 85.0,
    "today": 95.0,
}
"""At the shortest length; models without attention lose 20 points a length, the others 5."""


def rows_of(key: str, *, loss: float, error: float | None, exact: float | None = None) -> Rows:
    """Three seeds of a model."""
    start = EXACT[key] if exact is None else exact
    return [
        {
            "exact": [max(start - loss * index + seed, 0.0) for index in range(len(LENGTHS))],
            "error": None if error is None else error + seed / 10,
            "parameters": 250_000,
            "map": {
                "text": "il m'a <entarté>",
                "source": ["he", "hit", "⟨end⟩"] if error is not None else [],
                "target": ["il", "a"] if error is not None else [],
                "weights": [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]] if error is not None else [],
            },
            "seconds": 10.0 + seed,
            "tokens": 300_000,
        }
        for seed in range(3)
    ]


@pytest.fixture
def results() -> dict[str, Rows]:
    return {
        model.key: rows_of(model.key, loss=5.0 if model.attends else 20.0, error=9.0 if model.attends else None)
        for model in MODELS
    }


@pytest.fixture
def result(results: dict[str, Rows]) -> HistoryResult:
    return HistoryResult(results, [22.0, 22.1, 22.3], (1, 2, 3), 500, 60)
