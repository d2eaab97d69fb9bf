"""The depth lab: its verdict on made-up numbers, and a world in which no connection skips a layer."""

from __future__ import annotations

import pytest

from weft.apps.labs import depth
from weft.apps.labs.depth import judge_depth


@pytest.mark.parametrize(
    ("shallow", "plain", "residual", "outcome"),
    [
        ([60, 65, 62], [10, 12, 8], [95, 97, 96], "held"),
        ([60, 65, 62], [10, 12, 8], [61, 64, 62], "held"),
        ([60, 65, 62], [61, 64, 62], [95, 97, 96], "did not hold"),
        ([60, 65, 62], [10, 12, 8], [10, 12, 8], "did not hold"),
        ([60, 65, 62], [10, 70, 8], [95, 97, 96], "inconclusive"),
        ([60, 65, 62], [10, 12, 8], [95, 97, 20], "inconclusive"),
        ([60], [10], [95], "inconclusive"),
    ],
)
def test_the_verdict(shallow: list[float], plain: list[float], residual: list[float], outcome: str) -> None:
    assert judge_depth({"encoder": (shallow, plain, residual)}).outcome == outcome


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_without_skip_connections_residual_is_no_remedy() -> None:
    result = depth(3, sides=("encoder",), layers=(2, 8), skips=False)
    lost, kept = (check.effect for check in result.verdict.checks)
    assert result.verdict.outcome == "did not hold" and kept.mean == -lost.mean < -5


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_world_of_two_layers() -> None:
    """The deepest network is the shallow one: nothing is lost."""
    result = depth(2, quick=True, layers=(2,), steps=12)
    assert result.verdict.outcome == "did not hold"
    assert [check.effect.mean for check in result.verdict.checks[::2]] == [0, 0]
