"""A token store, in memory and in files: what was put in, without its duplicates, and nothing else; or one line."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenized_blocks import block, rows_of
from weft.data.pairs import Pair
from weft.data.store import token_store
from weft.data.store.block_tokenizer import (
    BLANK,
    KEPT,
    TOO_LONG,
    UNREADABLE,
    FlatSequences,
    RowCounts,
    TokenizedBlock,
    count_rows,
)
from weft.data.store.token_store import StoreWriter
from weft.errors import DataError


@pytest.fixture(params=["memory", "folder"])
def folder(request, tmp_path):
    """Where a store is written."""
    return None if request.param == "memory" else tmp_path


class TestAStore:
    def test_has_what_was_put_in(self, folder):
        writer = StoreWriter(folder, (100, 70_000))
        first = writer.write([block([[3], [4, 5]], [[6, 7], [69_999]]), block([], []), block([[9, 9, 9]], [[8]])])
        second = writer.write([block([[1]], [[2]])])
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[3], [4, 5], [9, 9, 9], [1]]
        assert rows_of(pairs.target) == [[6, 7], [69_999], [8], [2]]
        assert (first.rows, first.kept, second.kept) == (3, 3, 1)
        assert pairs.source.values.dtype == np.uint16 and pairs.target.values.dtype == np.int32
        assert tuple(pairs.corpus_size) == (4, 7, 5, 3, 2)

    def test_of_nothing(self, folder):
        writer = StoreWriter(folder, (9, 9))
        assert writer.write([]).rows == 0
        pairs = writer.finish()
        assert len(pairs) == 0 and rows_of(pairs.source) == [] and pairs.corpus_size.pairs == 0

    def test_of_empty_sources(self, folder):
        writer = StoreWriter(folder, (9, 9))
        writer.write([block([[], []], [[1], [2, 3]])])
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[], []] and rows_of(pairs.target) == [[1], [2, 3]]

    def test_an_error_in_a_piece_is_raised(self, folder):
        spoilt = block([], [])
        spoilt.fatal = "corpus.tsv:7: spoilt"
        with pytest.raises(DataError, match=r"^corpus.tsv:7: spoilt$"):
            StoreWriter(folder, (9, 9)).write([block([[1]], [[1]]), spoilt])

    @pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 20])
    def test_loses_its_duplicates(self, folder, monkeypatch, chunk):
        """In each corpus by itself, whatever is read at a time."""
        monkeypatch.setattr(token_store, "CHUNK_ROWS", chunk)
        writer = StoreWriter(folder, (100, 100))
        corpus = [
            block([[1], [2, 2], [1]], [[11], [12], [13]], hashes={0: [5, 6, 5]}),
            block([[3, 3, 3], [4]], [[14], [15]], drop_reasons=[KEPT, 0, KEPT], hashes={0: [6, 0, 7]}),
        ]
        counts = [writer.write(corpus), writer.write(corpus), writer.write([block([[8]], [[18]])])]
        pairs = writer.finish()
        assert rows_of(pairs.source) == [[1], [2, 2], [4]] * 2 + [[8]]
        assert rows_of(pairs.target) == [[11], [12], [15]] * 2 + [[18]]
        assert [(one.rows, one.kept, dict(one.dropped)) for one in counts] == [(6, 3, {0: 3})] * 2 + [(1, 1, {})]
        assert pairs.corpus_size.pairs == 7 and pairs.corpus_size.source_tokens == 9


def slow_settling(drop_reasons, hashes):
    """Fates after duplicates: row by row, step by step, with a set for each."""
    final = list(drop_reasons)
    for step in sorted(hashes):
        seen = set()
        for row, number in enumerate(hashes[step]):
            if number and (final[row] in (KEPT, TOO_LONG, BLANK) or final[row] > step):
                if number in seen:
                    final[row] = step
                seen.add(number)
    return final


@st.composite
def settled_rows(draw):
    """Rows of a pipeline whose steps 1 and 3 look for duplicates, cut into blocks."""
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        reason = draw(st.sampled_from([KEPT, KEPT, KEPT, TOO_LONG, UNREADABLE, BLANK, 0, 2, 4]))
        reached = -1 if reason == UNREADABLE else 9 if reason < 0 else reason
        if reason == BLANK and draw(st.booleans()):
            reached = -1
        hashes = [draw(st.integers(1, 4)) if reached > step else 0 for step in (1, 3)]
        rows.append((reason, *hashes))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    return rows, [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@given(settled_rows())
def test_counts_and_rows_against_a_plain_set(drawn):
    rows, blocks = drawn
    tokenized = []
    for part in blocks:
        kept = [[7]] * sum(reason == KEPT for reason, _, _ in part)
        hashes = {1: [value for _, value, _ in part], 3: [value for _, _, value in part]}
        tokenized.append(block(kept, kept, [reason for reason, _, _ in part], hashes))
    written = []
    counts, keep = count_rows(tokenized, written.append)
    reasons = [reason for reason, _, _ in rows]
    final = slow_settling(reasons, {1: [value for _, value, _ in rows], 3: [value for _, _, value in rows]})
    assert written == tokenized
    assert keep.tolist() == [final[row] == KEPT for row, reason in enumerate(reasons) if reason == KEPT]
    expected = Counter(final)
    assert counts.kept == expected.pop(KEPT, 0) == int(keep.sum())
    assert counts.dropped == expected
    assert counts.rows == len(rows) == counts.kept + sum(counts.dropped.values())


def test_counts_survive_being_written():
    counts = RowCounts(9, 4, Counter({UNREADABLE: 2, 0: 1, TOO_LONG: 2}), Counter({"json": 2}))
    assert RowCounts.from_record(json.loads(json.dumps(counts.record()))) == counts


def test_counts_keep_the_first_messages_and_some_examples():
    first, second = block([], [], [UNREADABLE]), block([], [], [UNREADABLE])
    first.first_errors, second.first_errors = {"json": "f:1: bad"}, {"json": "f:2: bad", "columns": "f:3: few"}
    first.examples, second.examples = {0: [("f:4", Pair("a", "b"))]}, {0: [("f:5", Pair("c", "d"))] * 3}
    counts, _ = count_rows([first, second], lambda _: None, examples=2)
    assert counts.first_errors == {"json": "f:1: bad", "columns": "f:3: few"}
    assert counts.examples == {0: [("f:4", Pair("a", "b")), ("f:5", Pair("c", "d"))]}


def test_a_store_in_memory_is_bounded():
    writer = StoreWriter(None, (100, 100))
    writer.max_bytes = 50
    block = TokenizedBlock()
    block.source = block.target = FlatSequences(np.arange(8, dtype=np.int32), np.array([4, 4]))
    writer._write_block(block)
    with pytest.raises(
        DataError, match=r"^data\.train: 4 tokenized pairs take over 50 bytes, half of the memory; keep"
    ):
        writer._write_block(block)
