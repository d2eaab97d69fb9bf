"""The cost lab: what it times, and its ratios of made-up seconds."""

from __future__ import annotations

import pytest

from weft.apps.labs.cost import MODELS, SCORES, Condition, ratio, trial
from weft.apps.labs.trials import Trials


@pytest.mark.parametrize(("kind", "names"), [("scores", SCORES), ("models", MODELS)])
def test_everything_is_timed(kind: str, names: tuple[str, ...]) -> None:
    seconds = trial(Condition(kind, 3, 8, 1), 1)
    assert tuple(seconds) == names and all(value >= 0 for value in seconds.values())


def test_a_ratio_is_a_geometric_mean_over_seeds() -> None:
    condition = Condition("scores", 4, 8, 1)
    results = {condition: [{"dot": 1.0, "additive": 2.0}, {"dot": 2.0, "additive": 16.0}]}
    trials = Trials((condition,), (1, 2), results)
    assert ratio(trials, condition, "additive", "dot").mean == pytest.approx(4.0)
