"""Training within a time limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.training_runs import TRANSFORMER, contents
from weft.errors import RecipeError, WeftWarning
from weft.pairs import train as pairs_train
from weft.pairs.time_limit import fitting, speed
from weft.pairs.time_limit.budget import Speed
from weft.pairs.train import train
from weft.recipe import Recipe, load_recipe
from weft.recipe.data import NamedCorpus
from weft.training.events import Averaged, Finished, Fitted, Started, Step, Validation

Tiny = Callable[[dict[str, Any]], Recipe]
RECIPE = {
    "training.steps": 4_000,
    "training.validate_every": 2_000,
    "training.warmup": 50,
    "training.average": 2,
    "training.metric": "exact_match",
    "data.valid_size": 3,
    "search.kind": "greedy",
}


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """really measured, though for a moment only; 100 minutes are time for about 20 updates."""
    monkeypatch.setattr(speed, "MIN_UPDATES", 3)
    monkeypatch.setattr(fitting, "MEASURED_SECONDS", (0.0, 0.0))
    measure = speed.measure

    def slow(run: speed.MeasuredRun, **options: Any) -> Speed:
        measured = measure(run, **options)
        has_validation = run.validation is not None
        assert measured.step > 0 and (measured.loss > 0) == (measured.sentence > 0) == has_validation
        return Speed(step=260.0)

    monkeypatch.setattr(fitting, "measure", slow)


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("model", [{}, TRANSFORMER], ids=["recurrent", "transformer"])
def test_the_recipe_of_the_run_trains_it_again(tiny: Tiny, tmp_path: Path, model: dict[str, Any]) -> None:
    """Neither the measurement nor the limit leaves a trace in the weights."""
    events = list(train(tiny({**RECIPE, **model}), tmp_path / "run", minutes=100, evaluate=False))
    assert [type(event) for event in events[:2]] == [Started, Fitted]
    assert isinstance(events[-1], Finished) and events[-1].reason == "steps"
    fitted = next(event for event in events if isinstance(event, Fitted))
    saved = load_recipe(tmp_path / "run" / "recipe.toml")
    assert 20 <= saved.training.steps == fitted.steps == events[-1].step < 25
    assert (fitted.recipe_steps, fitted.minutes, fitted.validations) == (4_000, 100, 2)
    assert saved.training.validate_every == saved.training.steps // 2 and saved.training.warmup == 4
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    assert log[1]["event"] == "fitted" and log[1]["recipe_steps"] == 4_000 and log[1]["test_items"] is None
    list(train(saved, tmp_path / "again"))
    first, second = (contents(tmp_path / name)[0] for name in ("run", "again"))
    assert first["model.safetensors"] == second["model.safetensors"]


@pytest.mark.usefixtures("quickly")
def test_a_machine_that_becomes_slower(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training ends at once, is validated, and can be resumed up to the steps that were planned."""
    fit = fitting.fit_run
    monkeypatch.setattr(pairs_train, "fit_run", lambda run, **given: fit(run, **given)._replace(deadline=0.0))
    events = list(train(tiny(RECIPE), tmp_path / "run", minutes=100, evaluate=False))
    assert isinstance(events[-1], Finished) and (events[-1].step, events[-1].reason) == (1, "time")
    assert [event.step for event in events if isinstance(event, Validation)] == [1]
    saved = load_recipe(tmp_path / "run" / "recipe.toml")
    events = list(train(saved, tmp_path / "run", resume=True))
    assert events[-1].step == saved.training.steps and any(isinstance(event, Averaged) for event in events)
    assert not any(isinstance(event, Fitted) for event in events)


@pytest.mark.usefixtures("quickly")
def test_a_stream_is_counted_from_its_beginning(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a b\tb a\nwrong\n" * 20, "utf-8")
    files = {"data.train": "train.tsv", "data.valid": "train.tsv", "data.folder": str(tmp_path)}
    streamed = {**files, "data.streaming": True, "data.bad_rows": "skip", **RECIPE}
    first = list(train(tiny(streamed), tmp_path / "run", minutes=100, evaluate=False))[-1]
    saved = load_recipe(tmp_path / "run" / "recipe.toml")
    second = list(train(saved, tmp_path / "again"))[-1]
    assert isinstance(first, Finished) and isinstance(second, Finished)
    assert first.dropped == second.dropped != {}


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("minutes, steps", [(30, 6), (1e-6, 1)])
def test_time_for_very_few_updates(tiny: Tiny, tmp_path: Path, minutes: float, steps: int) -> None:
    """They are trained; a limit that is far too short is for one update."""
    with pytest.warns(WeftWarning, match=rf"^minutes: .* only {steps} steps? of 260 s, .*; give [0-9.]+ minutes more"):
        events = list(train(tiny(RECIPE), tmp_path / "run", minutes=minutes, evaluate=False))
    assert isinstance(events[-1], Finished) and events[-1].step == steps
    assert load_recipe(tmp_path / "run" / "recipe.toml").training.steps == steps


class TestRefused:
    @pytest.mark.usefixtures("quickly")
    def test_a_corpus_whose_turn_would_never_come(self, tiny: Tiny, tmp_path: Path) -> None:
        recipe = tiny(RECIPE)
        corpora = [NamedCorpus(name="copy"), NamedCorpus(name="copy", first_step=2_000)]
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": corpora})})
        with pytest.raises(RecipeError, match=r"a corpus of data\.train starts at step 2,000, but "):
            list(train(recipe, tmp_path / "run", minutes=100, evaluate=False))
        assert not (tmp_path / "run").exists()


def test_the_limit_of_a_recipe_that_fits(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the recipe that would be trained without a limit."""
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=0.001))
    recipe = tiny({"training.steps": 3, "training.validate_every": 1})
    events = list(train(recipe, tmp_path / "run", minutes=5, evaluate=False))
    assert load_recipe(tmp_path / "run" / "recipe.toml").training == recipe.training
    assert sum(isinstance(event, Step) for event in events) == 3
