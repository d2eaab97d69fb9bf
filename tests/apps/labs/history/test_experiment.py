"""Training and measuring the models of the history."""

from __future__ import annotations

import json

import pytest

import weft
from weft.apps.labs import history
from weft.apps.labs.history.experiment import Condition
from weft.apps.labs.history.models import MODELS
from weft.apps.labs.history.task import LENGTHS, MAX_WORDS, SENTENCE, settings, unseen_pairs
from weft.errors import RecipeError


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.key)
def test_settings_are_those_of_a_recipe(model: object) -> None:
    recipe = weft.make_recipe(settings(model, 7))  # type: ignore[arg-type]
    assert recipe.training.steps == 7 and recipe.model.attends == model.attends  # type: ignore[attr-defined]


def test_unseen_pairs_have_the_lengths() -> None:
    pairs = unseen_pairs(1, 2)
    assert [len(pair.source.split()) for pair in pairs] == [length for length in LENGTHS for _ in range(2)]
    assert MAX_WORDS in LENGTHS and len(SENTENCE.split()) <= MAX_WORDS


@pytest.mark.usefixtures("in_process")
def test_a_tiny_history() -> None:
    seen: list[tuple[Condition, int]] = []

    def watch(condition: Condition, seed: int, result: dict[str, object]) -> None:
        seen.append((condition, seed))

    result = history([4], steps=2, sentences=1, models=("cho2014", "bahdanau2015"), on_result=watch)
    assert [(condition.key, seed) for condition, seed in seen] == [("cho2014", 4), ("bahdanau2015", 4)]
    [plain], [attending] = result.results["cho2014"], result.results["bahdanau2015"]
    assert plain["error"] is None and plain["map"]["weights"] == []
    assert 0 <= attending["error"] <= 100 and len(attending["exact"]) == len(LENGTHS)
    assert result.seeds == (4,) and len(result.diagonal) == 1 and result.to_html()


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_the_same_seeds_give_the_same_numbers() -> None:
    first, second = (history(2, quick=True).record() for _ in range(2))
    del first["speed"], second["speed"]
    assert json.dumps(first) == json.dumps(second)


def test_an_unknown_model() -> None:
    with pytest.raises(RecipeError, match=r"models: no model 'cho2015'; did you mean 'cho2014'"):
        history(models=("cho2015",))
