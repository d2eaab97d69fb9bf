"""A recipe that is fitted to a time limit, with made-up speeds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.data.pairs import Pair
from weft.errors import RecipeError
from weft.pairs.time_limit import fitting
from weft.pairs.time_limit.budget import Speed, TimeLimit
from weft.pairs.time_limit.speed import MeasuredRun
from weft.recipe import Recipe
from weft.recipe.data import NamedCorpus
from weft.training.events import Fitted
from weft.training.train import NewRun
from weft.training.update import TrainingContext

Tiny = Callable[[dict[str, Any]], Recipe]
Fit = Callable[..., Fitted]


class NothingPassed(TimeLimit):
    """A limit of which no time has passed yet."""

    def remaining(self) -> float:
        return 60 * self.minutes


@pytest.fixture
def fit(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Fit:
    """Fits a recipe of 1,000 steps, of a second each, into some seconds."""
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=1.0))

    def fit(seconds: float, *, first_step: int = 1, evaluates: bool = False, models: int = 0) -> Fitted:
        recipe = tiny({"training.steps": 1_000, "training.validate_every": 0})
        train = [NamedCorpus(name="copy"), NamedCorpus(name="copy", first_step=first_step)]
        changes = {"train": train, "valid": NamedCorpus(name="copy")}
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update=changes)})
        limit = NothingPassed(seconds / 60, 0.0, evaluates)
        prepared: Any = SimpleNamespace(data=None)
        model: Any = None
        run = NewRun(recipe, model, prepared, None, torch.device("cpu"))
        fitted = fitting.fit_run(run, limit, models=models)
        assert fitted.recipe.training.steps == fitted.event.steps
        assert fitted.deadline == limit.end - fitted.event.closing_seconds
        return fitted.event

    return fit


def test_the_share_of_each_of_several_models(fit: Fit) -> None:
    fitted = fit(3_000, models=6)  # 2,880 s for two models and a distillation
    assert (fitted.steps, fitted.recipe_steps) == (822, 1_000) and fitted.share_seconds == pytest.approx(3_000 / 3.5)
    assert fit(2_000, models=6).share_seconds is None and fit(5_000, models=6).share_seconds == 5_000 / 4.5


def test_time_is_left_for_the_evaluation(fit: Fit) -> None:
    assert (fit(400).steps, fit(400).closing_seconds) == (384, 0.0)  # 96 % of the time
    fitted = fit(400, evaluates=True)
    assert (fitted.steps, fitted.closing_seconds) == (326, 60.0)  # … of what 15 % for the evaluation leave


def test_a_corpus_may_start_at_the_last_step(fit: Fit) -> None:
    assert fit(400, first_step=384).steps == 384
    with pytest.raises(RecipeError) as error:
        fit(400, first_step=385)
    assert str(error.value) == (
        "minutes: a corpus of data.train starts at step 385, but 384 steps fit into the time; give more minutes, or "
        "lower its first_step"
    )


@pytest.mark.parametrize("seed", [1, 7])
def test_the_updates_that_are_measured_are_those_of_the_run(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    runs: list[MeasuredRun] = []
    monkeypatch.setattr(fitting, "measure", lambda run, **_: runs.append(run) or Speed(step=1.0))
    recipe = tiny({"seed": seed, "training.steps": 50, "training.validate_every": 0})
    prepared: Any = SimpleNamespace(data="batches")
    model: Any = "model"
    device = torch.device("cpu")
    fitting.fit_run(NewRun(recipe, model, prepared, None, device), NothingPassed(5.0, 0.0))
    assert runs == [MeasuredRun(model, prepared.data, TrainingContext(recipe.training, seed, device), None)]


@pytest.mark.parametrize(
    ("references", "minutes", "seconds", "items"),
    [
        ("each", 2.0, 2.0 + 3 * 2.6, None),  # 16 s, of which 2 s are for loading
        ("grouped", 2.0, 2.0 + 2 * 2.6, None),
        ("each", 1.0, 2.0 + 2 * 2.6, 2),  # 7 s
        ("grouped", 1.0, 2.0 + 2 * 2.6, None),
        ("grouped", 0.1, 2.0 + 2.6, 1),  # at least one, whatever the time
    ],
)
def test_the_evaluation_is_of_as_many_items_as_there_is_time_for(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, references: str, minutes: float, seconds: float, items: int | None
) -> None:
    pairs = [Pair("a", "x"), Pair("a", "y"), Pair("b", "z")]
    monkeypatch.setattr(fitting, "read_corpus", lambda *_: pairs)
    recipe = tiny({"evaluation.references": references})
    validation: Any = SimpleNamespace(encoded=range(4))
    speed = Speed(step=1.0, loss=4.0, sentence=1.0)  # 1.3 · (4 s / 4 + 1 s) for each
    found = fitting._evaluation(recipe, speed, validation, TimeLimit(minutes, 0.0, evaluates=True))
    assert found == (pytest.approx(seconds), items, 2.6)
    assert fitting._evaluation(recipe, speed, validation, TimeLimit(minutes, 0.0)) == (0.0, None, 0.0)


@pytest.mark.parametrize(
    ("planned", "each", "seconds", "items"),
    [
        (None, 2.0, 0.0, None),  # there is time for all of them, so it was planned
        (4, 2.0, 0.0, 4),  # time was reserved for these
        (4, 2.0, 2.0 + 2 * 7, 7),  # training ended early: time for more …
        (4, 2.0, 2.0 + 2 * 10, None),  # … or all
        (4, 0.0, 100.0, None),
    ],
)
def test_the_time_left_in_the_end_decides_how_much_is_evaluated(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, planned: int | None, each: float, seconds: float, items: int | None
) -> None:
    monkeypatch.setattr(fitting, "read_corpus", lambda *_: [Pair(f"a{n}", "x") for n in range(10)])
    plan = Fitted(0, 1.0, 1, 1, 1.0, 0, 0.0, 1.0, test_items=planned, item_seconds=each)
    assert fitting.evaluation_items_within(tiny({}), plan, seconds) == items


@pytest.mark.parametrize(
    ("minutes", "evaluates", "expected"),
    [(1.0, True, (2.0 + 9.0, 4)), (3.0, True, (2.0 + 20.0, None)), (3.0, False, (0.0, None))],
)
def test_time_is_reserved_by_what_validations_took(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, minutes: float, evaluates: bool, expected: tuple[float, int | None]
) -> None:
    monkeypatch.setattr(fitting, "read_corpus", lambda *_: [Pair(f"a{n}", "x") for n in range(10)])
    assert fitting.evaluation_reserve(tiny({}), TimeLimit(minutes, 0.0, evaluates), 2.0) == expected


@pytest.mark.parametrize("startup", [0.0, 500.0])
@pytest.mark.parametrize(
    ("sentence", "steps", "sentences"),
    [
        (0.0, 96, 200),  # 96 % of 100 s
        (0.01, 84, 200),  # four validations of 200 sentences: 4 · 1.3 · 2 s
        (0.1, 44, 100),  # 26 s each would take more than half of the time, and 100 sentences are the fewest
    ],
)
def test_a_probe_has_all_of_its_validations(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, startup: float, sentence: float, *, steps: int, sentences: int
) -> None:
    """Compiling kernels took longer than the probe; it trains all the same."""
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=1.0, startup=startup, sentence=sentence))
    monkeypatch.setattr(fitting, "RecipeValidation", lambda *_: SimpleNamespace(searched=200))
    recipe = tiny({"training.steps": 1_000, "training.validate_every": 50, "training.warmup": 100})
    new = NewRun(recipe, *[None] * 2, [], torch.device("cpu"))  # type: ignore[arg-type]
    new = new._replace(prepared=SimpleNamespace(data=None))  # type: ignore[arg-type]
    fitted, measured = fitting.fit_probe(new, 100.0, validations=4)
    settings = fitted.recipe.training
    assert measured == Speed(step=1.0, startup=startup, sentence=sentence)
    assert (settings.steps, settings.valid_sentences) == (steps, sentences)
    assert settings.steps == 4 * settings.validate_every
