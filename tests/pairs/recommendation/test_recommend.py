"""From named pairs to a recipe: what was given wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import RecipeError
from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.recommendation.recommend import Recommendation, recommend_recipe
from weft.recipe import shipped


@pytest.fixture
def pairs(tmp_path: Path) -> PairsArgument:
    """Sentences of two languages."""
    rows = [f"the {n}th word of {n % 7}, here.\tdas {n}te Wort von {n % 7}, hier.\n" for n in range(300)]
    (tmp_path / "a.tsv").write_text("".join(rows))
    return PairsArgument(str(tmp_path / "a.tsv"))


def _topics(recommended: Recommendation) -> set[str]:
    return {choice.topic for choice in recommended.choices}


def test_the_line_of_an_overridden_choice_is_left_out(pairs: PairsArgument) -> None:
    plain, changed = (recommend_recipe(pairs, changes) for changes in ([], ["model.dropout=0.15", "search.size=3"]))
    assert changed.recipe.model.dropout == 0.15 and changed.recipe.search.size == 3
    assert _topics(plain) - _topics(changed) == {"dropout", "search"}
    assert (
        plain.recipe.model_copy(update={"model": changed.recipe.model, "search": changed.recipe.search})
        == changed.recipe
    )


@pytest.mark.parametrize("steps, every, warmup", [(20_000, 1_000, 2_000), (300, 25, 50), (60, 25, 15), (2, 2, 0)])
def test_warmup_and_validations_follow_given_steps(pairs: PairsArgument, steps: int, every: int, warmup: int) -> None:
    training = recommend_recipe(pairs, [f"training.steps={steps}"]).recipe.training
    assert (training.steps, training.validate_every, training.warmup) == (steps, every, warmup)


def test_a_choice_that_contradicts_what_was_given_is_given_up(tmp_path: Path) -> None:
    sentences = [f"this is the {n}th sentence of all {n % 7} that are here." for n in range(300)]
    (tmp_path / "a.tsv").write_text("".join(f"{text.replace('all', 'al')}\t{text}\n" for text in sentences))
    corrections = PairsArgument(str(tmp_path / "a.tsv"))
    assert recommend_recipe(corrections).recipe.model.tie == "all"
    recommended = recommend_recipe(corrections, ["tokenizer.joint=false"])
    assert recommended.recipe.model.tie == "none" and not recommended.recipe.tokenizer.joint
    assert not {"embeddings", "vocabularies"} & _topics(recommended)


def test_what_was_given_must_agree(pairs: PairsArgument) -> None:
    with pytest.raises(RecipeError, match=r"^model\.tie: 'all' shares one embedding"):
        recommend_recipe(pairs, ["model.tie=all", "tokenizer.joint=false"])
    with pytest.raises(RecipeError, match=r"^training\.stepps: unknown setting"):
        recommend_recipe(pairs, ["training.stepps=3"])


def test_another_kind_of_network(pairs: PairsArgument) -> None:
    recommended = recommend_recipe(pairs, ["model.encoder.kind=transformer", "model.decoder.kind=gru"])
    assert (recommended.recipe.model.encoder.kind, recommended.recipe.model.decoder.kind) == ("transformer", "gru")
    assert "model" not in _topics(recommended)


def test_pairs_for_validation_are_not_held_out_if_given(pairs: PairsArgument) -> None:
    data = recommend_recipe(pairs, ["data.valid=valid.tsv"]).recipe.data
    assert data.valid == "valid.tsv" and data.holdout.valid == 0 and data.holdout.test > 0
    data = recommend_recipe(pairs, ["data.test=none", "data.holdout.valid=0.2"]).recipe.data
    assert (data.holdout.valid, data.holdout.test, data.test) == (0.2, 0, None)


def test_a_share_of_few_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"a{n}\tb{n}\n" for n in range(6)))
    few = PairsArgument(str(tmp_path / "a.tsv"))
    assert recommend_recipe(few).recipe.data.valid is not None
    data = recommend_recipe(few, ["data.holdout.valid=0.3"]).recipe.data
    assert (data.holdout.valid, data.valid) == (0.3, None)


@pytest.mark.parametrize("name", shipped())
def test_the_settings_of_every_recipe_fit(name: str, pairs: PairsArgument) -> None:
    recommended = recommend_recipe(pairs, like=name)
    assert recommended.recipe.model.sources.count == 1 and recommended.recipe.data.holdout.valid > 0
    assert recommended.lines()[2] == f"all other settings: those of the recipe {name} (--like)"


def test_columns_that_are_named(pairs: PairsArgument) -> None:
    """The third and the first of a table, in which the second would be the target."""
    assert pairs.name is not None
    rows = [f"the {n}th word here.\tdas {n}te Wort hier.\tle mot {n} ici.\n" for n in range(300)]
    Path(pairs.name).write_text("".join(rows))
    data = recommend_recipe(PairsArgument(pairs.name, "3", "1")).recipe.data
    assert (data.train.source, data.train.target) == ([3], [1])  # type: ignore[union-attr]
