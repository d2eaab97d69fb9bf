"""Measuring the speed of a run, and leaving no trace of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.data.store.token_store import PairStore, TokenStore
from weft.pairs.time_limit import speed
from weft.pairs.time_limit.speed import update_speed


def test_the_typical_update() -> None:
    """Slow ones are those that capture a CUDA graph; what they cost in addition is paid once."""
    speed = update_speed([9.0, 2.0, 0.1, 0.3, 0.1, 5.0, 0.3])
    assert speed.step == pytest.approx(0.2)
    assert speed.startup == pytest.approx(9.0 + 2.0 + 5.0 + 0.8 - 7 * 0.2)


def test_updates_without_a_slow_start() -> None:
    speed = update_speed([0.1] * 10)
    assert speed.step == pytest.approx(0.1) and speed.startup == pytest.approx(0, abs=1e-9)


def test_few_updates() -> None:
    assert update_speed([9.0, 2.0]).step == 2.0


class SlowRun:
    """A trainer and its validation, with a made-up clock: an update, 32 pairs, or 4 sentences take so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds
        self.context = SimpleNamespace(device=torch.device("cpu"))
        store = TokenStore.of([[5, 6, 7]] * 1_000)
        self.encoded = PairStore(store, store)
        self.items = SimpleNamespace(sources=["a"] * 1_000)
        self.recipe = SimpleNamespace(search=SimpleNamespace(max_length=None, kind="beam"))
        monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: self.now))

    def steps(self) -> None: ...

    def start_update(self, steps: None) -> str:
        self.now += self.seconds
        return "update"

    def report(self, update: str) -> None: ...

    def loss(self, model: None, limit: int = 1_000) -> None:
        self.now += self.seconds * limit / 32

    def translate(self, model: None, count: int, **search: int) -> None:
        self.lengths = search
        self.now += self.seconds * count / 4


MEASUREMENTS: dict[str, Callable[[Any], float]] = {
    "updates": lambda run: update_speed(speed._timed_updates(run, 1.0)).step,
    "loss": lambda run: speed._loss_seconds(None, run, 1.0) * 32 / 1_000,  # type: ignore[arg-type]
    "translations": lambda run: speed._sentence_seconds(None, run, 1.0) * 4,  # type: ignore[arg-type]
}


@pytest.mark.parametrize("measured", MEASUREMENTS.values(), ids=MEASUREMENTS)
@pytest.mark.parametrize("seconds", [0.1, 0.5, 2.0, 20.0])
def test_a_measurement_is_short_on_any_machine(
    monkeypatch: pytest.MonkeyPatch, measured: Callable[[Any], float], seconds: float
) -> None:
    """At most four times the given second, or the smallest measurement that there is."""
    run = SlowRun(monkeypatch, seconds)
    assert measured(run) == pytest.approx(seconds)
    assert run.now <= max(2 * 4 * 1.0, 3 * seconds)


@pytest.mark.parametrize(
    ("kind", "max_length", "lengths"),
    [
        ("beam", None, {"max_length": 3, "min_length": 2}),  # those of the references
        ("beam", 9, {"max_length": 3, "min_length": 2}),
        ("beam", 2, {"max_length": 2, "min_length": 1}),
        ("exact", None, {}),
        ("exhaustive", 2, {}),
    ],
)
def test_the_lengths_of_measured_translations(
    monkeypatch: pytest.MonkeyPatch, kind: str, max_length: int | None, lengths: dict[str, int]
) -> None:
    run: Any = SlowRun(monkeypatch, 20.0)
    run.recipe = SimpleNamespace(search=SimpleNamespace(max_length=max_length, kind=kind))
    speed._sentence_seconds(None, run, 1.0)  # type: ignore[arg-type]
    assert run.lengths == lengths


def test_what_the_first_call_compiles_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that take ten seconds to compile are not taken for the cost of every sentence."""
    now = [0.0]
    monkeypatch.setattr(speed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    durations = iter([10.0, 0.5])

    def call() -> None:
        now[0] += next(durations)

    assert speed._second_duration(call) == 0.5
