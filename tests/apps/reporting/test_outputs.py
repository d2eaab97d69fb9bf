"""Outputs of the test set and their scores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from weft.apps.reporting.outputs import _with_intervals
from weft.evaluation.line_statistics import LineStatistics
from weft.evaluation.metrics import exact_match
from weft.evaluation.significance import Resampling, exact_interval


def test_the_interval_of_a_perfect_score() -> None:
    """As at the end of weft train: that all of three outputs are right does not prove that all others will be."""
    score, statistics = exact_match(["a"] * 3, ["a"] * 3), LineStatistics(np.ones((3, 2)), lambda _: 100.0)
    result: Any = SimpleNamespace(scores=[score, score], statistics=[statistics, None])
    assert [metric.interval for metric in _with_intervals(result, Resampling())] == [exact_interval(3, 100.0), None]
