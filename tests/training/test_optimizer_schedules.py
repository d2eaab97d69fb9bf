from __future__ import annotations

import math
from itertools import pairwise

import pytest

from weft.recipe import TrainingSettings
from weft.recipe.choices import SCHEDULES
from weft.training.optimizer import Schedule
from weft.training.optimizer import make_schedule as schedule_of


def make_schedule(name: str, *, warmup: int, steps: int) -> Schedule:
    return schedule_of(TrainingSettings(schedule=name, warmup=warmup, steps=steps))


@pytest.mark.parametrize("name", SCHEDULES)
def test_linear_warm_up_to_the_peak(name: str) -> None:
    schedule = make_schedule(name, warmup=7, steps=100)
    assert [schedule(step) for step in range(1, 8)] == pytest.approx([step / 7 for step in range(1, 8)])


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_never_above_the_peak_nor_below_zero_nor_rising_again(name: str, warmup: int) -> None:
    schedule = make_schedule(name, warmup=warmup, steps=50)
    factors = [schedule(step) for step in range(1, 61)]
    assert all(0.0 <= factor <= 1.0 for factor in factors)
    after = factors[max(warmup - 1, 0) :]
    assert all(later <= earlier for earlier, later in pairwise(after))


@pytest.mark.parametrize("name", ["constant", "plateau"])
def test_constant(name: str) -> None:
    assert {make_schedule(name, warmup=7, steps=20)(step) for step in range(7, 40)} == {1.0}
    assert {make_schedule(name, warmup=0, steps=20)(step) for step in range(1, 40)} == {1.0}


@pytest.mark.parametrize("step", [7, 28, 63, 700])
def test_inverse_square_root(step: int) -> None:
    assert make_schedule("inverse_sqrt", warmup=7, steps=100)(step) == pytest.approx(math.sqrt(7 / step))


def test_inverse_square_root_without_warm_up() -> None:
    assert make_schedule("inverse_sqrt", warmup=0, steps=100)(25) == pytest.approx(1 / 5)


@pytest.mark.parametrize(("step", "factor"), [(10, 1.0), (30, 0.75), (40, 0.5), (50, 0.25), (70, 0.0), (99, 0.0)])
def test_cosine(step: int, factor: float) -> None:
    """From step 10 to step 70: a third of the way cos π/3 = 1/2, so 3/4."""
    assert make_schedule("cosine", warmup=10, steps=70)(step) == pytest.approx(factor)


def test_cosine_that_is_all_warm_up() -> None:
    assert make_schedule("cosine", warmup=5, steps=5)(5) == 1.0
