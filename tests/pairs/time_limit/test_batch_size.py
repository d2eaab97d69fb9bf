"""The batch of a run with few minutes, with made-up speeds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.pairs.time_limit import fitting
from weft.pairs.time_limit.batch_size import BatchSpeed, batch_for
from weft.pairs.time_limit.budget import Speed, TimeLimit
from weft.pairs.time_limit.speed import MeasuredRun
from weft.recipe import Recipe
from weft.training.train import NewRun

Tiny = Callable[[dict[str, Any]], Recipe]


def computing(tokens: int) -> Speed:
    """A machine on which an update takes as long as its batch is large."""
    return Speed(step=tokens / 1_024, startup=2.0)


def launching(tokens: int) -> Speed:
    """A machine on which it takes a second, however few tokens there are."""
    return Speed(step=1.0 + tokens / 10_240)


@pytest.mark.parametrize(
    ("machine", "seconds", "tokens"),
    [
        (computing, 2_000.0, 1_024),
        (computing, 400.0, 1_024),  # three quarters of 384 s for a quarter of 1,000 steps
        (computing, 300.0, 512),
        (computing, 150.0, 256),
        (computing, 10.0, 256),
        (launching, 10.0, 1_024),
    ],
)
def test_batches_are_halved_as_long_as_that_gives_more_updates(
    machine: Callable[[int], Speed], seconds: float, tokens: int
) -> None:
    measured = machine(1_024)._replace(loss=3.0, sentence=4.0)
    best = batch_for(BatchSpeed(1_024, measured), machine, seconds=seconds, steps=1_000)
    assert best.tokens == tokens
    assert best.speed == (measured if tokens == 1_024 else machine(tokens)._replace(loss=3.0, sentence=4.0))


def test_small_batches_and_a_quarter_are_the_limits() -> None:
    assert batch_for(BatchSpeed(500, computing(500)), computing, seconds=1.0, steps=1_000).tokens == 500
    assert batch_for(BatchSpeed(1 << 14, computing(1 << 14)), computing, seconds=1.0, steps=1_000).tokens == 1 << 12


@pytest.mark.parametrize("fits_batch", [True, False])
def test_the_plan_has_the_batch(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, *, fits_batch: bool) -> None:
    """200 s: 144 of 1,000 steps with the recipe's batch; half of that takes half as long."""

    def measure(run: MeasuredRun, *, seconds: float, translates: bool) -> Speed:
        assert not translates
        return Speed(step=run.context.settings.batch_tokens / 1_024)

    monkeypatch.setattr(fitting, "measure", measure)
    recipe = tiny({"training.steps": 1_000, "training.validate_every": 0, "training.batch_tokens": 1_024})
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"metric": "loss"})})
    run = NewRun(recipe, *[None] * 2, None, torch.device("cpu"))  # type: ignore[arg-type]
    run = run._replace(prepared=SimpleNamespace(data=None))  # type: ignore[arg-type]
    fitted = fitting.fit_run(run, TimeLimit.from_now(200 / 60), models=1, fits_batch=fits_batch)
    probe, _ = fitting.fit_probe(run, 20.0, validations=4, batch_seconds=200.0 if fits_batch else 0.0)
    batch = 512 if fits_batch else 1_024
    assert fitted.recipe.training.batch_tokens == probe.recipe.training.batch_tokens == batch
    assert fitted.event.batch_tokens == probe.event.batch_tokens == (512 if fits_batch else None)
    assert fitted.recipe.training.steps == pytest.approx(192 * 1_024 / batch, abs=3)
