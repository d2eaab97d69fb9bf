"""The automatic choice for tables whose sources name pictures, frames or sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.kinds_of_pictures import KINDS, colored_shapes, formulas, frames, lines, tall_lines, write_table
from weft.data.columns.rows import PairInput, RowCount
from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.profiling.profile import PairProfile, profile_pairs
from weft.pairs.recommendation.arrays import array_warnings, choose_for_arrays, find_array_task
from weft.pairs.recommendation.proposals import propose
from weft.pairs.recommendation.recommend import recommend_recipe
from weft.pairs.recommendation.settings import choose_settings
from weft.recipe import make_recipe

COUNT = 40


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PairProfile]:
    made = {}
    for name, kind in KINDS.items():
        made[name] = profile_pairs(PairInput(str(write_table(tmp_path_factory.mktemp(name), kind(COUNT)))))
    return made


@pytest.mark.parametrize(
    "kind, task",
    [(lines, "line"), (tall_lines, "line"), (formulas, "formula"), (colored_shapes, "picture"), (frames, "frames")],
)
def test_kinds_of_tasks(kind: object, task: str, profiles: dict[str, PairProfile]) -> None:
    profile = profiles[kind.__name__]  # type: ignore[attr-defined]
    assert profile.arrays is not None and find_array_task(profile, profile.arrays).kind == task


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("pairs", [COUNT, 8_000, 1_000_000])
@pytest.mark.parametrize("name", KINDS)
def test_every_choice_is_a_recipe(name: str, pairs: int, device: str, profiles: dict[str, PairProfile]) -> None:
    profile = replace(profiles[name], count=RowCount(pairs))
    chosen = choose_settings(profile, device="cuda" if device == "cuda" else "cpu")
    recipe = make_recipe({"name": "pairs", **chosen.tree()})
    assert recipe.tokenizer.reads_arrays and recipe.model.stem.inputs == recipe.tokenizer.channels
    assert recipe.training.augmentation.changes_pictures == (name != "frames" and pairs < 200_000)
    assert all(choice.reason for choice in chosen.choices)


def test_lines_of_text_are_columns_with_ctc(profiles: dict[str, PairProfile]) -> None:
    tree = choose_settings(profiles["lines"], device="cpu").tree()
    assert (tree["model"]["kind"], tree["model"]["stem"]["kind"]) == ("ctc", "columns")
    assert "height" not in tree["tokenizer"] and tree["tokenizer"]["target_kind"] == "character"
    scaled = choose_settings(profiles["tall_lines"], device="cpu").tree()
    assert scaled["tokenizer"]["height"] == 48 and scaled["training"]["metric"] == "exact_match"


def test_formulas_are_a_grid_with_coverage(profiles: dict[str, PairProfile]) -> None:
    tree = choose_settings(profiles["formulas"], device="cpu").tree()
    assert tree["model"]["stem"]["kind"] == "grid" and tree["model"]["attention"]["coverage"] == "sum"
    assert (tree["tokenizer"]["target_kind"], tree["tokenizer"]["split_punctuation"]) == ("word", False)


def test_colors_matter_unless_a_text_is_read(profiles: dict[str, PairProfile]) -> None:
    assert choose_settings(profiles["colored_shapes"], device="cpu").tree()["tokenizer"]["channels"] == 3
    arrays = profiles["lines"].arrays
    assert arrays is not None
    colored = replace(profiles["lines"], arrays=replace(arrays, colored=1.0))
    assert choose_settings(colored, device="cpu").tree()["tokenizer"]["channels"] == 1


def test_narrow_letters_have_more_states_or_no_ctc(profiles: dict[str, PairProfile]) -> None:
    arrays = profiles["lines"].arrays
    assert arrays is not None
    narrow = replace(profiles["lines"], arrays=replace(arrays, character_heights=0.15))
    assert choose_settings(narrow, device="cpu").tree()["model"]["stem"]["strides"] == [[2, 2], [2, 1], [2, 1]]
    narrower = replace(profiles["lines"], arrays=replace(arrays, character_heights=0.05))
    assert choose_settings(narrower, device="cpu").tree()["model"]["stem"]["kind"] == "grid"


def test_pictures_of_one_shape(profiles: dict[str, PairProfile]) -> None:
    """As of a form field: as wide as their characters, or not."""
    arrays = profiles["lines"].arrays
    assert arrays is not None
    fields = replace(profiles["lines"], arrays=replace(arrays, follows_width=None, character_heights=0.4))
    assert choose_settings(fields, device="cpu").tree()["model"]["kind"] == "ctc"
    wide = replace(fields, arrays=replace(arrays, follows_width=None, character_heights=4.0))
    assert choose_settings(wide, device="cpu").tree()["model"]["stem"]["kind"] == "grid"


def test_large_pictures_are_scaled_and_allowed(profiles: dict[str, PairProfile]) -> None:
    shapes = profiles["colored_shapes"]
    assert shapes.arrays is not None
    photographs = replace(shapes.arrays, heights=(900, 1000, 3000), widths=(900, 1500, 4000))
    tokenizer = choose_settings(replace(shapes, arrays=photographs), device="cpu").tree()["tokenizer"]
    assert tokenizer["height"] == 96 and tokenizer["max_values"] >= 3000 * 4000 * 3


def test_files_that_cannot_be_read_are_skipped_and_named(tmp_path: Path) -> None:
    table = lines(30)
    path = write_table(tmp_path, table)
    assert recommend_recipe(PairsArgument(str(path))).recipe.data.bad_rows == "error"
    (tmp_path / table[4][0]).unlink()
    recommended = recommend_recipe(PairsArgument(str(path)))
    assert recommended.recipe.data.bad_rows == "skip"
    assert any(line.startswith("1 of 30 files cannot be read: ") for line in recommended.warnings)
    assert any(f"{path}:5: {table[4][0]}: no such file" in line for line in recommended.warnings)


@pytest.mark.parametrize("share, is_long, is_said", [(0.51, True, True), (0.51, False, False), (0.05, True, False)])
def test_texts_of_held_out_files_that_are_trained_on(
    share: float, is_long: bool, is_said: bool, profiles: dict[str, PairProfile]
) -> None:
    """Other pictures of the same long texts say little about new ones; short texts recur anyway."""
    profile = replace(profiles["formulas"], target_overlaps={"valid": share})
    characters = replace(profile.target.characters, median=40.0 if is_long else 4.0)
    profile = replace(profile, target=replace(profile.target, characters=characters))
    assert profile.arrays is not None
    said = [warning for warning in array_warnings(profile, profile.arrays) if "other files" in warning]
    assert len(said) == is_said and all(warning.startswith("51% of the validation pairs") for warning in said)


def test_nothing_races_against_it(tmp_path: Path) -> None:
    recommended = recommend_recipe(PairsArgument(str(write_table(tmp_path, lines(30)))))
    assert [candidate.recipe for candidate in propose(recommended)] == [recommended.recipe]
    assert "LSTM" in propose(recommended)[0].summary


def test_given_steps(profiles: dict[str, PairProfile]) -> None:
    choices = choose_for_arrays(profiles["lines"], {"train": profiles["lines"].input}, "cpu", given_steps=80)
    steps = next(choice.settings for choice in choices if choice.topic == "steps")
    assert (steps["training.steps"], steps["training.validate_every"]) == (80, 25)


def test_texts_are_refused() -> None:
    from fixtures.profiles import made_up_profile

    with pytest.raises(ValueError, match="texts"):
        choose_for_arrays(made_up_profile("words", "words"), {}, "cpu")
