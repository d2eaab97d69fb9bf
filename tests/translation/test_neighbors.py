"""Tables of neighboring tokens: against a set of pairs, over batches, and in files that nobody should trust."""

from __future__ import annotations

import base64
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.id_rows import IdRows
from weft.translation.neighbors import BITS, NO_NEIGHBORS, Neighbors, read_neighbors

SENTENCES = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=5), max_size=6)


@given(SENTENCES, SENTENCES)
def test_the_pairs_that_no_sentence_has(known: list[list[str]], sentences: list[list[str]]) -> None:
    """By a set; seven letters have 56 pairs, none of which share a bit."""
    table = Neighbors.of(known)
    pairs = {pair for tokens in known for pair in pairwise(("", *tokens))}
    assert table.are_known == bool(pairs)
    names = ["a", "b", "c", "d", "e", "f", "g"]
    rows = IdRows.of([[names.index(token) for token in tokens] for tokens in sentences])
    batch = table.novelties(rows, lambda ids: [names[index] for index in ids])
    for tokens, share in zip(sentences, batch, strict=True):
        new = [bool(pairs) and pair not in pairs for pair in pairwise(("", *tokens))]
        assert table.new(tokens) == new
        assert table.novelty(tokens) == pytest.approx(np.mean(new) if new else 0.0) == pytest.approx(share)
    assert read_neighbors(table.record()) == table


def test_what_is_not_known_is_not_new() -> None:
    assert NO_NEIGHBORS.new(["a", "b"]) == [False, False] and NO_NEIGHBORS.novelty(["a"]) == 0.0
    assert Neighbors.of([]) == NO_NEIGHBORS and read_neighbors(NO_NEIGHBORS.record()) == NO_NEIGHBORS


@pytest.mark.parametrize(
    "content",
    [
        7,
        "!",
        base64.b64encode(b"abc").decode(),
        base64.b64encode(zlib.compress(b"abc")).decode(),
        base64.b64encode(zlib.compress(bytes(BITS))).decode(),  # a bomb is not unpacked
        "A" * BITS,
    ],
)
def test_what_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match=r"^neighbors: |base64|padd"):
        read_neighbors(content)
