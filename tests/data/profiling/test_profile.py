"""The profile of an input."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from weft.data.profiling.inputs import PairInput
from weft.data.profiling.profile import EvenSample, SourceSample, profile_pairs
from weft.errors import DataError


def _file(path: Path, rows: list[list[str]]) -> PairInput:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return PairInput(str(path))


def test_an_even_sample_covers_everything() -> None:
    sample = EvenSample(max_pairs=10)
    for number in range(1_000):
        sample.add(str(number), "")
    numbers = [int(source) for source, _ in sample.pairs]
    assert 5 <= len(numbers) <= 10
    assert {b - a for a, b in itertools.pairwise(numbers)} == {128}
    assert sample.seen == 1_000


def test_an_even_sample_is_bounded_in_characters() -> None:
    sample = EvenSample(max_characters=1_000)
    for _ in range(100):
        sample.add("x" * 100, "y" * 100)
    assert len(sample.pairs) <= 5


def test_sources_are_sampled_with_all_their_pairs() -> None:
    sample = SourceSample(max_pairs=100)
    for number in range(3_000):
        sample.add(str(number // 3), "even" if number % 3 == 0 else "odd")
    assert sample.targets_per_source == 2
    assert sample.several_targets == 1
    assert sample.duplicates == pytest.approx(1 / 3)


def test_a_profile(tmp_path: Path) -> None:
    rows = [["source", "target"], *([f"word{n} a", f"w {n}"] for n in range(50)), ["", "x"], ["word0 a", "w 0"], ["a"]]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.columns.header == ("source", "target")
    assert (profile.count.rows, profile.sampled, profile.bad_rows) == (53, 51, 1)
    assert profile.blank == pytest.approx(1 / 52)
    assert profile.duplicates == pytest.approx(1 / 51)
    assert profile.several_targets == 0
    assert json.dumps(profile.record())


def test_features_are_not_part_of_the_source(tmp_path: Path) -> None:
    rows = [[f"lemma{n}", f"V;{'SG' if n % 2 else 'PL'}", f"form{n}"] for n in range(50)]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.source.tokens.maximum == 1
    assert [side.spaced.size for side in profile.features] == [3]


def test_sorted_by_length_and_swapped_sides(tmp_path: Path) -> None:
    rows = [["a b c"[: 1 + 2 * (n % 3)] + " d e", "word" + "x" * n] for n in range(60)]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.sorted_by_length
    assert profile.looks_swapped
    assert not profile_pairs(_file(tmp_path / "b.tsv", [row[::-1] for row in rows])).looks_swapped


@pytest.mark.parametrize(("text", "message"), [("", "the file is empty"), ("\t\n", "no pair with text on both sides")])
def test_nothing_to_profile(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        profile_pairs(PairInput(str(tmp_path / "a.tsv")))
