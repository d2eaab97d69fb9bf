"""Pairs."""

from weft.data.pairs import Pair, is_blank


def test_blank_sides() -> None:
    assert all(map(is_blank, [Pair("", "a"), Pair("a", " \t"), Pair("\u3000", "a"), Pair("", "")]))
    assert not is_blank(Pair("a", " b"))
