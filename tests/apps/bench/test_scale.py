"""All sweeps of a recipe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.bench import scale as module
from weft.apps.bench.limits import Peaks
from weft.apps.bench.scale import measure_scale
from weft.apps.bench.sweep import Point, SweepResult
from weft.errors import RecipeError
from weft.recipe import Recipe, make_recipe

SMALL = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}}
Asked = list[tuple[str, list[int], float]]


def recipe(**model: Any) -> Recipe:
    return make_recipe({"model": {**SMALL, **model}, "training": {"device": "cpu"}, "tokenizer": {"kind": "character"}})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The sweeps, of which only the first size is made; none is measured."""
    sweeps: Asked = []

    def measure_sweep(sizes: list[int], make: Any, *, seconds: float, available_memory: int | None) -> SweepResult:
        sweeps.append((type(make(sizes[0])).__name__, sizes, seconds))
        return SweepResult((Point(sizes[0], 0.1, (0.1,), 100),), None)

    peaks = iter([Peaks(1.0, 5.0), Peaks(2.0, 4.0)])
    monkeypatch.setattr(module, "measure_sweep", measure_sweep)
    monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: None))  # it takes a second here
    monkeypatch.setattr(Peaks, "measure", lambda device, precision: next(peaks))
    return sweeps


def test_every_size_of_every_phase(asked: Asked) -> None:
    result = measure_scale(recipe(), minutes=2.0)
    assert [(curve.phase.name, curve.axis.name) for curve in result.curves] == [
        *(("update", name) for name in ("source_length", "target_length", "batch", "vocabulary")),
        *(("encoder", name) for name in ("source_length", "batch")),
        *(("step", name) for name in ("source_length", "target_length", "batch", "beam", "vocabulary")),
    ]
    assert result.peaks == {"fp32": Peaks(2.0, 5.0)} == {"fp32": result.curves[0].peaks}  # the higher of two each
    assert result.precision == {"update": "fp32", "encoder": "fp32", "step": "fp32"} and result.device == "CPU"
    seconds = [each for _, _, each in asked]
    assert seconds[0] == pytest.approx(120 / 29, rel=0.2) and seconds[-1] > 90  # nothing took any time


def test_some_sizes(asked: Asked) -> None:
    result = measure_scale(recipe(), vary=["beam"], at=["batch=3"])
    assert [name for name, _, _ in asked] == ["StepCase"] and result.base.batch == 3


def test_a_language_model_has_no_source(asked: Asked) -> None:
    curves = measure_scale(recipe(kind="language_model")).curves
    assert {curve.phase.name for curve in curves} == {"update", "step"}
    assert "source_length" not in {curve.axis.name for curve in curves}


def test_a_source_has_a_token_for_each_column(asked: Asked) -> None:
    measure_scale(recipe(sources={"count": 5}), vary=["source_length"])
    assert asked[0][1][0] == 8


def test_refusals() -> None:
    with pytest.raises(RecipeError, match="minutes=0: expected a number of minutes above 0"):
        measure_scale(recipe(), minutes=0)


TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 2, "feed_forward": 64}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("model", [SMALL, {"embedding": 64, "encoder": TRANSFORMER, "decoder": TRANSFORMER}])
def test_on_a_gpu(model: dict[str, Any]) -> None:
    made = make_recipe({"model": model, "training": {"device": "cuda"}})
    result = measure_scale(made, minutes=0.1, vary=["batch", "vocabulary"])
    assert result.device != "CPU" and len(result.curves) == 5
    for curve in result.curves:
        assert all(point.seconds > 0 and point.memory for point in curve.points) and curve.points
