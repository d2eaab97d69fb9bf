"""Which pairs are suspicious, and of what kind."""

from __future__ import annotations

from random import Random

import pytest

from weft.data.pairs import Pair
from weft.pairs.cleaning.suspects import KINDS, rank_suspects


def corpus(count: int = 300) -> list[Pair]:
    random = Random(5)
    rows = ([random.randrange(40) for _ in range(random.randrange(3, 9))] for _ in range(count))
    return [Pair(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in row)) for row in rows]


CLEAN = [Pair(*(side.translate(str.maketrans("0123456789", "abcdefghij")) for side in pair[:2])) for pair in corpus()]


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (Pair("sa sb", "sa sb"), "copied"),
        (Pair("", "ta"), "blank"),
        (CLEAN[0], "duplicate"),
        (Pair("sa sb sc", "та тб тц"), "script"),
        (Pair(CLEAN[1].source + " 17", CLEAN[1].target + " 18"), "numbers"),
    ],
)
def test_rules(pair: Pair, kind: str) -> None:
    [first, *_] = rank_suspects([*CLEAN, pair])
    assert first.number == len(CLEAN) and first.kind == kind and kind in KINDS and first.reason


def test_misaligned_and_cut_pairs_rank_above_the_others() -> None:
    misaligned = [Pair(CLEAN[row].source, CLEAN[row + 1].target) for row in range(20)]
    cut = [Pair(CLEAN[row].source, " ".join(CLEAN[row].target.split()[:2])) for row in range(30, 50)]
    cut = [pair for pair in cut if len(pair.source.split()) >= 4]
    pairs = [*misaligned, *cut, *CLEAN[60:]]
    suspects = rank_suspects(pairs)
    damaged = len(misaligned) + len(cut)
    ranks = {suspect.number: rank for rank, suspect in enumerate(suspects)}
    above = sum(ranks[row] < 2 * damaged for row in range(damaged))
    assert above >= 0.8 * damaged
    assert {suspect.kind for suspect in suspects[:damaged]} >= {"misaligned"}


def test_a_kind_that_is_usual_is_not_suspicious() -> None:
    copies = [Pair(pair.source, pair.source) for pair in CLEAN[:100]]
    suspects = rank_suspects([*CLEAN[100:200], *copies])
    assert all(suspect.kind != "copied" for suspect in suspects)


def test_nothing_to_rank() -> None:
    assert rank_suspects([]) == []
    assert len(rank_suspects([Pair("a", "b")])) == 1
