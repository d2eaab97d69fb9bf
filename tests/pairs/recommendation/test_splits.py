"""Which pairs are trained, validated and tested on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.data.columns.rows import PairInput, RowCount
from weft.data.splitting import SplitShares, parts_of
from weft.pairs.profiling.profile import profile_pairs
from weft.pairs.recommendation.choices import Choice, as_tree
from weft.pairs.recommendation.splits import choose_pairs


def _choices(path: Path, rows: list[tuple[str, ...]], **parts: PairInput) -> list[Choice]:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    train = PairInput(str(path))
    return choose_pairs(profile_pairs(train), {"train": train, **parts})


@pytest.mark.parametrize("count", [10, 11, 13, 20, 40, 60, 100, 900])
def test_every_part_has_pairs(count: int, tmp_path: Path) -> None:
    rows = [(f"source {number}", f"t{number}") for number in range(count)]
    choices = _choices(tmp_path / "a.tsv", rows)
    shares = SplitShares(**as_tree(choices)["data"]["holdout"])
    parts = parts_of([source for source, _ in rows], shares)
    sizes = {part: parts.count(part) for part in ("train", "valid", "test")}
    assert min(sizes.values()) >= min(max(count // 20, 1), 5) and sizes["train"] >= 0.6 * count
    assert choices[-1].value == (f"{sizes['train']} to train on, {sizes['valid']} to validate, {sizes['test']} to test")


@pytest.mark.parametrize("count", [1, 5, 9])
def test_few_pairs_are_validated_on_themselves(count: int, tmp_path: Path) -> None:
    choices = _choices(tmp_path / "a.tsv", [(f"source {number}", "x") for number in range(count)])
    data = as_tree(choices)["data"]
    assert data["valid"] == data["train"] and "holdout" not in data
    assert choices[-1].line() == (
        f"validation pairs: the training pairs ({count} different source{'s' * (count > 1)}, too few to hold some out)"
    )


def test_one_source(tmp_path: Path) -> None:
    """All its pairs belong into one part."""
    data = as_tree(_choices(tmp_path / "a.tsv", [("source", f"x{number}") for number in range(50)]))["data"]
    assert data["valid"] == data["train"] and "holdout" not in data


@pytest.mark.parametrize(("copies", "share"), [(9, 0.0625), (10, 0.0625), (30, 0.03125), (300, 0.03125)])
def test_a_frequent_source_is_trained_on(copies: int, share: float, tmp_path: Path) -> None:
    """One with a tenth of the held-out pairs, such as the 2,188 pairs "turn left" of a part of SCAN."""
    rows = [(f"source {number}", "x") for number in range(2_000)] + [("turn left", "x")] * copies
    (tmp_path / "test.tsv").write_text("a\tb\n")
    choices = _choices(tmp_path / "a.tsv", rows, test=PairInput(str(tmp_path / "test.tsv")))
    assert as_tree(choices)["data"]["holdout"] == {"valid": share}
    assert parts_of(["turn left"], SplitShares(0.0625, 0.0)) == ["valid"]


def test_frequent_sources_all_over_leave_the_shares_alone(tmp_path: Path) -> None:
    rows = [(f"source {number % 50}", f"x{number}") for number in range(2_000)]
    data = as_tree(_choices(tmp_path / "a.tsv", rows))["data"]
    assert data["holdout"] == {"valid": 0.0625, "test": 0.0625}


def test_what_is_given_is_not_held_out(tmp_path: Path) -> None:
    rows = [(f"source {number}", "x") for number in range(100)]
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    valid = PairInput(str(tmp_path / "valid.tsv"))
    data = as_tree(_choices(tmp_path / "a.tsv", rows, valid=valid))["data"]
    assert data["valid"] == valid.file and [*data["holdout"]] == ["test"]


@pytest.mark.parametrize("given", ["valid", "test"])
def test_only_what_is_missing_is_held_out(given: str, tmp_path: Path) -> None:
    """As many pairs as if both were."""
    rows = [(f"source {number}", "x") for number in range(900)]
    (tmp_path / "given.tsv").write_text("a\tb\n")
    both = as_tree(_choices(tmp_path / "a.tsv", rows))["data"]["holdout"]
    parts = {given: PairInput(str(tmp_path / "given.tsv"))}
    choices = _choices(tmp_path / "a.tsv", rows, **parts)
    [other] = {"valid", "test"} - {given}
    assert as_tree(choices)["data"]["holdout"] == {other: both[other]}
    [split] = [choice.value for choice in choices if choice.topic == "split"]
    assert ("to validate" in split, "to test" in split) == (given == "test", given == "valid")


def test_columns_are_named(tmp_path: Path) -> None:
    rows = [("lemma", "msd", "form"), *((f"w{n}", f"V;{'SG' if n % 2 else 'PL'}", f"f{n}") for n in range(40))]
    [line] = [choice.line() for choice in _choices(tmp_path / "a.tsv", rows) if choice.topic == "columns"]
    assert line == "columns: source lemma; features msd; target form (the first row is a header)"


def test_features_are_split_as_the_corpus_is_read(tmp_path: Path) -> None:
    from weft.data.preparation import read_corpus
    from weft.recipe import make_recipe

    rows = [(f"w{n}", f"V;{'SG' if n % 2 else 'PL'}", f"f{n}") for n in range(200)]
    choices = _choices(tmp_path / "a.tsv", rows)
    recipe = make_recipe({**as_tree(choices), "model": {"sources": {"count": 2}}})
    sizes = [len(list(read_corpus(recipe, part))) for part in ("train", "valid", "test")]
    assert choices[-1].value == "{} to train on, {} to validate, {} to test".format(*sizes)


def test_sizes_of_a_sample_are_rough(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"source {number}\tt{number}\n" for number in range(5_000)))
    profile = profile_pairs(PairInput(str(tmp_path / "a.tsv")), read_bytes=20_000)
    assert not profile.is_complete
    [choice] = [choice for choice in choose_pairs(profile, {"train": profile.input}) if choice.topic == "split"]
    assert choice.value.startswith("about ") and f", about {round(profile.pairs / 16):,} to test" in choice.value


@pytest.mark.parametrize(
    ("changes", "skips"),
    [
        ({}, False),
        ({"bad_rows": 1}, True),
        ({"part_errors": {"test": "1 row …"}}, True),
        ({"count": RowCount(10_000, "estimated")}, True),
        ({"rows_read": 9_999}, True),
    ],
)
def test_rows_that_cannot_be_read_are_skipped_where_there_may_be_some(changes: dict[str, Any], skips: bool) -> None:
    profile = made_up_profile("text", "text", {"input": PairInput("-"), **changes})
    data = as_tree(choose_pairs(profile, {"train": profile.input}))["data"]
    assert data.get("bad_rows") == ("skip" if skips else None)


@pytest.mark.parametrize(("certainty", "words"), [("exact", ""), ("estimated", "about "), ("at least", "at least ")])
def test_how_certain_the_number_of_pairs_is(certainty: Any, words: str) -> None:
    changes = {"input": PairInput("-"), "count": RowCount(10_000, certainty)}
    profile = made_up_profile("text", "text", changes)
    assert choose_pairs(profile, {"train": profile.input})[0].value == f"{words}10,000"
