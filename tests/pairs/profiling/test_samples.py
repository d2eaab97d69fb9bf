"""Samples of pairs."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from weft.data.splitting import SplitShares, parts_of
from weft.pairs.profiling.samples import EvenSample, SourceSample


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


def test_the_sizes_of_parts_are_those_of_the_split() -> None:
    sources = [f"source {number % 700}" for number in range(1_000)]
    whole, small = SourceSample(), SourceSample(max_pairs=300)
    for source in sources:
        whole.add(source, "x")
        small.add(source, "x")
    for shares in (SplitShares(1 / 16, 1 / 16), SplitShares(0.0, 1 / 8)):
        assert whole.part_sizes(shares) == {**dict.fromkeys(("valid", "test"), 0), **Counter(parts_of(sources, shares))}
        assert small.part_sizes(shares) == whole.part_sizes(shares), "they were not dropped"
    assert small.part_sizes(SplitShares(0.25, 0.25)) == {"train": 500, "valid": 250, "test": 250}, "an estimate"


def test_overlap_of_samples() -> None:
    train, test = SourceSample(max_pairs=500), SourceSample()
    for number in range(2_000):
        train.add(str(number), "x")
    for number in range(1_000, 3_000):
        test.add(str(number), "y")
    assert train.overlap(test) == pytest.approx(0.5, abs=0.1)
    assert test.overlap(SourceSample()) == 0


def test_targets_that_two_samples_share() -> None:
    train, test = SourceSample(), SourceSample()
    for number in range(100):
        train.add(f"train {number}", f"text {number % 20}")
        test.add(f"test {number}", f"text {number % 80}")
    assert train.target_overlap(test) == 0.4  # 20 of each 80, and all of the last 20
    assert train.target_overlap(SourceSample()) == 0
    small = SourceSample(max_pairs=50)
    for number in range(100):
        small.add(str(number), "x")
    assert small.target_overlap(test) is None, "not all pairs were kept"


def test_the_limits_of_samples() -> None:
    """As many pairs and characters as are allowed, and not one more; of one source all pairs are kept."""
    pairs, characters = EvenSample(max_pairs=4), EvenSample(max_characters=8)
    for number, (by_pairs, by_characters) in enumerate([(1, 1), (2, 2), (3, 3), (4, 4), (3, 3)]):
        pairs.add(f"{number}", "x")
        characters.add(f"{number}", "x")
        assert (len(pairs.pairs), len(characters.pairs)) == (by_pairs, by_characters)
    one = EvenSample(max_characters=1)
    one.add("long", "text")
    assert one.pairs == [("long", "text")]
    sources = SourceSample(max_pairs=3)
    for number in range(3):
        sources.add(str(number), "x")
    assert len(sources.targets) == 3 and sources.limit == 1 << 64
    sources.add("3", "x")
    assert len(sources.targets) < 4 and sources.limit < 1 << 64 and sources.seen == 4
    same = SourceSample(max_pairs=2)
    for number in range(5):
        same.add("a", str(number))
    assert [*map(len, same.targets.values())] == [5]


def test_an_empty_sample() -> None:
    sample = SourceSample()
    assert (sample.duplicates, sample.several_targets, sample.targets_per_source) == (0, 0, 0)
    assert sample.part_sizes(SplitShares(0.25, 0.25)) == {"train": 0, "valid": 0, "test": 0}
