"""[model.stem]: strides, shapes and contradictions."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from weft.recipe import Recipe
from weft.recipe.stem import StemSettings

ARRAYS: dict[str, Any] = {"kind": "picture", "target_kind": "character", "joint": False}


def test_strides_follow_from_the_kind() -> None:
    assert StemSettings(kind="columns").stages == [(2, 2), (2, 2), (2, 1)]
    assert StemSettings(kind="columns", widths=[4, 4, 4, 4]).stages[3] == (2, 1)
    assert StemSettings(kind="grid", widths=[4, 4]).stages == [(2, 2), (2, 2)]
    assert StemSettings(kind="frames", widths=[4]).stages == [(1, 2)]
    assert StemSettings(kind="grid", widths=[4], strides=[[3, 1]]).stages == [(3, 1)]


def test_shapes_of_the_output() -> None:
    assert StemSettings(kind="columns").output_shape(48, 83) == (1, 21)
    assert StemSettings(kind="grid").output_shape(17, 9) == (3, 2)
    assert StemSettings(kind="frames").output_shape(101, 80) == (1, 26)


def test_as_many_strides_as_stages() -> None:
    with pytest.raises(
        ValidationError, match=r"strides: 1 are given for 3 stages; give one pair for each of model\.stem"
    ):
        StemSettings(kind="grid", strides=[[2, 2]])


def test_a_recipe_for_pictures() -> None:
    recipe = Recipe.model_validate({"tokenizer": ARRAYS, "model": {"stem": {"kind": "grid"}}})
    assert recipe.tokenizer.reads_arrays and recipe.longest_side == 4 * 4_194_304
    assert not Recipe().tokenizer.reads_arrays and Recipe().longest_side == 250


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"stem": {"kind": "frames"}}}, "model.stem.kind: 'frames' does not read tokenizer.kind = 'picture'; "
         "set it to 'columns' or 'grid'"),
        ({"model": {"stem": {"kind": "grid", "inputs": 3}}}, "model.stem.inputs: 3, but tokenizer.channels = 1; make"),
        ({"model": {"stem": {"kind": "grid"}, "copy": True}}, "a source of pictures or frames; not with model.copy"),
        ({"data": {"streaming": True}}, "a source of pictures or frames; not with data.streaming = true"),
        ({"training": {"word_dropout": 0.1}}, "not with training.word_dropout = 0.1"),
        ({"search": {"coverage_penalty": 0.2}}, "not with search.coverage_penalty = 0.2"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_pictures(settings: dict[str, Any], message: str) -> None:
    complete = {"model": {"stem": {"kind": "columns"}}, "tokenizer": ARRAYS, **settings}
    with pytest.raises(ValidationError) as error:
        Recipe.model_validate(complete)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"joint": True}, "tokenizer.kind: 'picture' is for sources; set tokenizer.joint = false and"),
        ({"target_kind": "same"}, "tokenizer.kind: 'picture' is for sources; set tokenizer.joint = false and"),
        ({"channels": 2}, "tokenizer.channels: 2; pictures have 1 (gray) or 3 (red, green, blue)"),
        ({"kind": "bpe"}, "model.stem.kind: 'columns' does not read tokenizer.kind = 'bpe'; set it to 'none'"),
    ],
)
def test_tokenizers_that_do_not_fit(tokenizer: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Recipe.model_validate({"tokenizer": {**ARRAYS, **tokenizer}, "model": {"stem": {"kind": "columns"}}})
    assert message in str(error.value)
