"""BPE learned literally: the tie in the example of the lectures, and weft's learner beside it."""

from __future__ import annotations

from collections.abc import Sequence

from weft.apps.labs.merge_ties import LECTURE, Symbols, first_in_text, join, learn_merges, tied_pairs
from weft.text.bpe import BPE
from weft.text.vocabulary import LearningOptions


def test_six_pairs_are_tied_at_two() -> None:
    pairs, count = tied_pairs()
    assert count == 2
    assert pairs == [("l", "o"), ("o", "w"), ("w", "e"), ("e", "s"), ("s", "t"), ("t", "</w>")]


def test_the_merges_depend_on_the_rule() -> None:
    assert learn_merges(LECTURE, 2, first_in_text) == [("l", "o"), ("lo", "w")]
    assert learn_merges(LECTURE, 1, max) == [("w", "e")]


def test_a_learner_with_the_rule_of_weft_learns_what_weft_learns() -> None:
    """Smallest ids first: symbols in code point order, the end of a word (▁) last; then merges as they were learned."""
    alphabet = [*sorted({*LECTURE.replace(" ", "")}), "</w>"]
    ids = {symbol: index for index, symbol in enumerate(alphabet)}

    def smallest_ids(tied: Sequence[Symbols]) -> Symbols:
        pair = min(tied, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        ids["".join(pair)] = len(ids)
        return pair

    merges = BPE.learn([LECTURE], LearningOptions(size=20)).merges()
    assert merges[0] == ("e", "s") and len(merges) >= 4
    assert learn_merges(LECTURE, len(merges), smallest_ids) == merges


def test_joining_overlapping_pairs() -> None:
    assert join(["a", "a", "a"], ("a", "a")) == ["aa", "a"]
