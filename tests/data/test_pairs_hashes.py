"""Hashes of texts and pairs."""

from weft.data.pairs import Pair, pair_hashes, text_hashes


def test_hashes_tell_sides_apart_and_are_the_same_everywhere():
    assert pair_hashes([Pair("ab", "c")]) != pair_hashes([Pair("a", "bc")])
    assert pair_hashes([Pair("a", "b", ((0, 0),))]) == pair_hashes([Pair("a", "b")])
    assert pair_hashes([Pair("a", "b")], b"1") != pair_hashes([Pair("a", "b")], b"2")
    assert text_hashes(["weft"]) == [
        int.from_bytes(bytes.fromhex("9435354a6d7ebdbd"), "little")
    ]  # printf weft | b2sum -l 64
    assert pair_hashes([Pair("\ud800", "")]) and text_hashes(["\udfff"])
