"""The structural cut: which combinations and lengths are held out, and that what is left has neither."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from weft.data import structural_holdout
from weft.data.pairs import Pair
from weft.data.structural_holdout import NO_CUT, StructuralCut, combinations, learn_cut

VERBS, DIRECTIONS, TIMES = ("walk", "run", "look", "jump"), ("left", "right", "ahead"), (1, 2, 3, 4, 5)
PAIRS = [
    Pair(f"{verb} {direction} {times} times and {other} {second}", " ".join([verb.upper()] * times + [other.upper()]))
    for verb, direction, times, other, second in product(VERBS, DIRECTIONS, TIMES, VERBS, DIRECTIONS)
]


def parts(cut: StructuralCut, pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """The pairs that are left to train on, and those that are held out."""
    return [pair for pair in pairs if not cut.holds_out(pair)], [pair for pair in pairs if cut.holds_out(pair)]


def test_combinations_are_two_or_three_adjacent_tokens() -> None:
    assert combinations(["a", "b", "c", "a"]) == {("a", "b"), ("b", "c"), ("c", "a"), ("a", "b", "c"), ("b", "c", "a")}
    assert combinations(["a"]) == combinations([]) == set()


def test_a_pair_is_held_out_for_a_combination_or_its_length() -> None:
    cut = StructuralCut(frozenset([("b", "c")]), max_target=2)
    assert cut.holds_out(Pair("a  b c", "x")) and cut.holds_out(Pair("a", "x y z"))
    assert not cut.holds_out(Pair("a b a c", "x y"))
    assert not NO_CUT.holds_out(Pair("a b c", "x " * 100))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
class TestCut:
    def test_at_most_the_share_is_held_out_half_for_each_reason(self, share: float) -> None:
        cut = learn_cut(PAIRS, share)
        by_combination = sum(cut._replace(max_target=None).holds_out(pair) for pair in PAIRS)
        by_length = sum(cut._replace(combinations=frozenset()).holds_out(pair) for pair in PAIRS)
        assert 0 < by_combination <= share / 2 * len(PAIRS)
        assert by_length <= share / 2 * len(PAIRS)

    def test_what_is_held_out_does_not_occur_in_training_but_its_tokens_do(self, share: float) -> None:
        cut = learn_cut(PAIRS, share)._replace(max_target=None)
        kept, held_out = parts(cut, PAIRS)
        trained = {combination for pair in kept for combination in combinations(pair.source.split())}
        tokens = {token for pair in kept for token in pair.source.split()}
        assert cut.combinations and trained.isdisjoint(cut.combinations)
        assert {token for pair in held_out for token in pair.source.split()} <= tokens

    def test_does_not_depend_on_the_order_of_the_pairs(self, share: float) -> None:
        assert learn_cut(Random(3).sample(PAIRS, len(PAIRS)), share) == learn_cut(PAIRS, share)


def test_the_longest_targets_are_held_out() -> None:
    pairs = [Pair("a", "x " * length) for length in (1, 2, 3, 4, 5) for _ in range(20)]
    assert learn_cut(pairs, 0.4).max_target == 4
    assert learn_cut(pairs, 0.39).max_target is None, "one length more than half of the share"
    assert learn_cut([Pair("a", "x y")] * 10, 0.4) == NO_CUT


def test_a_token_keeps_half_of_its_pairs() -> None:
    pairs = [Pair(f"go {place}", "x") for place in ("home", "away") for _ in range(5)]
    pairs += [Pair("go out now", "x"), Pair("out and in now", "x")] * 5
    cut = learn_cut(pairs, 0.9)
    left, _ = parts(cut, pairs)
    assert not {("go", "home"), ("go", "away")} & cut.combinations, "home and away occur in no other combination"
    assert {"home", "away", "out", "now"} <= {token for pair in left for token in pair.source.split()}


def test_nothing_can_be_held_out_of_pairs_without_combinations() -> None:
    assert learn_cut([Pair(f"word{number}", "x") for number in range(100)], 0.4) == NO_CUT
    assert learn_cut([], 0.4) == NO_CUT
    assert learn_cut([Pair(f"a{number} b{number}", "x") for number in range(100)], 0.4) == NO_CUT, "all of them single"


def test_a_bounded_number_of_pairs_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structural_holdout, "LEARNED_FROM", 10)
    pairs = iter(PAIRS)
    learn_cut(pairs, 0.2)
    assert len(list(pairs)) == len(PAIRS) - 10
