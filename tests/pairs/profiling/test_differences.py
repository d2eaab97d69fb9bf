"""How test pairs differ from training pairs: each kind of difference alone, and what chance gives."""

from __future__ import annotations

from itertools import product

import pytest

from weft.pairs.profiling import differences
from weft.pairs.profiling.differences import Longer, Novelty, PartDifferences, TrainedStructures

VERBS, WAYS = ("walk", "run", "look"), ("left", "right", "up")
TRAINING = [(f"{verb} {way}", f"{verb.upper()} {way.upper()}") for verb, way in product(VERBS, WAYS)] * 2


def compare(pairs: list[tuple[str, str]], training: list[tuple[str, str]] = TRAINING) -> PartDifferences:
    structures = TrainedStructures()
    for source, target in training:
        structures.add(source, target)
    return structures.differences(pairs)


def test_pairs_like_the_training_pairs_differ_in_nothing() -> None:
    found = compare(TRAINING[:4])
    assert found.lines("test pairs") == []
    assert (found.longer_sources.share, found.longer_targets.share) == (0, 0)
    assert found.new_tokens == Novelty(0, 0) and found.new_combinations == Novelty(0, 1)


def test_longer_sides() -> None:
    found = compare([("walk left", "WALK LEFT UP"), ("walk left now", "WALK"), ("run up", "A B C D E")])
    assert found.longer_sources == Longer(1 / 3, 3, 2) and found.longer_targets == Longer(2 / 3, 5, 2)
    assert "67% of the test pairs have a longer target than any training pair (up to 5 tokens, in training 2)" in (
        found.lines("test pairs")
    )
    assert not Longer(0.049, 9, 2).is_notable


def test_new_combinations_of_known_tokens() -> None:
    training = [(f"{verb} {way} {other}", "x") for verb, way, other in product(VERBS, WAYS, VERBS)]
    training += [("jump left", "x"), ("jump left walk", "x"), ("left", "x"), ("jump left run", "x")]
    found = compare([("jump right", "x"), ("walk left run", "x"), ("jump up walk", "x"), ("jump left", "x")], training)
    assert found.new_combinations is not None and found.new_combinations.share == 0.5
    assert found.new_combinations.example == "jump right"
    assert found.new_combinations.by_chance == 29 / 31, "each sequence of three is in one source only"
    assert found.new_tokens == Novelty(0, 0)


def test_a_text_with_a_new_token_has_no_new_combination() -> None:
    found = compare([("swim left", "x"), ("walk left", "x")])
    assert found.new_tokens == Novelty(0.5, 0, "swim")
    assert found.new_combinations is not None and found.new_combinations.share == 0
    assert found.lines("test pairs") == [
        "50% of the test pairs have a source token that is not trained on (such as 'swim'; 0% by chance)"
    ]


def test_what_chance_gives_is_not_reported() -> None:
    """Every single word is a new token, in the training pairs as in the test pairs."""
    found = compare([(f"word{n}", "x") for n in range(100, 150)], [(f"word{n}", "x") for n in range(100)])
    assert found.new_tokens is not None and (found.new_tokens.share, found.new_tokens.by_chance) == (1, 1)
    assert found.lines("test pairs") == []


@pytest.mark.parametrize(
    ("share", "by_chance", "is_notable"),
    [(0.06, 0.0, True), (0.04, 0.0, False), (0.3, 0.14, True), (0.3, 0.16, False), (1.0, 0.6, False)],
)
def test_beyond_chance(share: float, by_chance: float, is_notable: bool) -> None:
    assert Novelty(share, by_chance).is_notable == is_notable


def test_a_source_counts_once() -> None:
    """Many targets of one source do not make its combinations frequent."""
    found = compare([("a c", "x")], [("a b", "x"), ("a b", "y"), ("a b", "z"), ("b a", "x")])
    assert found.new_combinations is not None and found.new_combinations.by_chance == 1


def test_of_too_many_combinations_only_lengths_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "MAX_COUNTED", 5)
    found = compare([("a b c d e f g", "x")])
    assert found.new_tokens is None and found.new_combinations is None and found.longer_sources.share == 1
    assert found.record()["new_tokens"] is None


def test_without_pairs() -> None:
    assert compare([]).lines("test pairs") == []
