"""Measuring the speed of a run, and leaving no trace of it."""

from __future__ import annotations

import pytest

from weft.training.speed import update_speed


def test_the_typical_update() -> None:
    """Slow ones are those that capture a CUDA graph; what they cost in addition is paid once."""
    speed = update_speed([9.0, 2.0, 0.1, 0.3, 0.1, 5.0, 0.3])
    assert speed.step == pytest.approx(0.2)
    assert speed.startup == pytest.approx(9.0 + 2.0 + 5.0 + 0.8 - 7 * 0.2)


def test_updates_without_a_slow_start() -> None:
    speed = update_speed([0.1] * 10)
    assert speed.step == pytest.approx(0.1) and speed.startup == pytest.approx(0, abs=1e-9)
