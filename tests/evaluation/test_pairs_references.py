"""Pairs with the same source as one item."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.data.pairs import Pair
from weft.evaluation.pairs import each_pair, grouped_by_source

PAIRS = st.lists(st.builds(Pair, st.text("ab", max_size=2), st.text("cd", max_size=2)), max_size=9)


@given(PAIRS)
def test_grouped_pairs_are_every_pair_once(pairs: list[Pair]) -> None:
    sources, references = grouped_by_source(iter(pairs))
    assert sources == [
        pair.source for place, pair in enumerate(pairs) if pair.source not in {p.source for p in pairs[:place]}
    ]
    assert references == [[pair.target for pair in pairs if pair.source == source] for source in sources]


@given(PAIRS)
def test_each_pair_is_an_item(pairs: list[Pair]) -> None:
    sources, references = each_pair(iter(pairs))
    assert list(zip(sources, references, strict=True)) == [(pair.source, [pair.target]) for pair in pairs]


def test_they_need_not_stand_side_by_side() -> None:
    pairs = [Pair("x", "1"), Pair("y", "2"), Pair("x", "3"), Pair("x", "1"), Pair("x ", "4")]
    assert grouped_by_source(pairs) == (["x", "y", "x "], [["1", "3", "1"], ["2"], ["4"]])
