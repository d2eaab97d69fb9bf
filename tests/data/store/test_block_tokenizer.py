"""From a block to ids: every row has one drop_reason, and what is kept is what the tokenizers say, with an end mark."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.data.filtering.steps import Duplicates, Identical, Length, Lowercase, Replace
from weft.data.pairs import Pair, RowError
from weft.data.store.block_tokenizer import (
    BLANK,
    KEPT,
    TOO_LONG,
    UNREADABLE,
    BlockTokenizer,
    BlockTokenizerSpec,
    FlatSequences,
    MultiCorpusTokenizer,
    chosen,
)
from weft.errors import VocabularyError
from weft.text.specials import END


@dataclass(frozen=True)
class Rows:
    """A block of rows that are there already; lines are counted from 11."""

    given: tuple
    name: str = "corpus.tsv"

    def rows(self):
        yield from enumerate(self.given, 11)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    learn("word", ["a b c d e x y z"], size=50).save(path)
    return path


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    texts = ["there was a tower there", "the flower power of the tower", "mower lower slower"] * 5
    learn("bpe", texts, size=60).save(path)
    return path


def split(ids):
    """Sequences laid end to end, as lists."""
    ends = np.cumsum(ids.lengths)
    return [ids.values[end - length : end].tolist() for end, length in zip(ends, ids.lengths, strict=True)]


ROWS = (
    Pair("a b", "x"),
    RowError("columns", "corpus.tsv:12: 1 column, expected 2"),
    Pair(" \t", "x"),
    Pair("a", ""),
    Pair("a a", "a a "),
    Pair("a b c d e", "x"),
    Pair("A", "Y"),
    RowError("encoding", "corpus.tsv:18: not valid UTF-8"),
    Pair("b", "x y z x"),
)
STEPS = (Identical(), Lowercase())


def test_every_row_has_its_fate(words):
    asked = BlockTokenizerSpec((words,), STEPS, max_length=3, bad_rows="skip")
    piece = BlockTokenizer(asked)(Rows(ROWS))
    assert piece.drop_reasons.tolist() == [KEPT, UNREADABLE, BLANK, BLANK, 0, TOO_LONG, KEPT, UNREADABLE, TOO_LONG]
    assert piece.error is None
    assert piece.problems == {"columns": 1, "encoding": 1, "blank": 2}
    assert piece.first == {
        "columns": "corpus.tsv:12: 1 column, expected 2",
        "encoding": "corpus.tsv:18: not valid UTF-8",
        "blank": "corpus.tsv:13: the source is blank",
    }
    encode = learn("word", ["a b c d e x y z"], size=50).encode
    assert split(piece.source) == [[*encode("a b"), END], [*encode("a"), END]]
    assert split(piece.target) == [[*encode("x"), END], [*encode("y"), END]]


def test_the_first_bad_row_ends_it(words):
    piece = BlockTokenizer(BlockTokenizerSpec((words,)))(Rows(ROWS))
    assert piece.error == "corpus.tsv:12: 1 column, expected 2; fix it, or set data.bad_rows = 'skip'"


def test_the_first_blank_row_ends_it_if_asked(words):
    piece = BlockTokenizer(BlockTokenizerSpec((words,), bad_rows="skip", blank_rows="error"))(Rows(ROWS))
    assert piece.error == "corpus.tsv:13: the source is blank; fix it, or set data.blank_rows = 'skip'"


@pytest.mark.parametrize(
    ("pair", "sources", "side"),
    [
        (Pair("", "x"), "text", "source"),
        (Pair("a", " "), "text", "target"),
        (Pair("", ""), "text", "source"),
        (Pair("\u3000", "x"), "prompt", "source"),
        (Pair("", " "), "none", "target"),
    ],
)
def test_a_blank_side_is_named(words, pair, sources, side):
    piece = BlockTokenizer(BlockTokenizerSpec((words,), sources=sources, blank_rows="error"))(Rows((pair,)))
    assert piece.error == f"corpus.tsv:11: the {side} is blank; fix it, or set data.blank_rows = 'skip'"


def test_a_language_model_has_no_sources(words):
    piece = BlockTokenizer(BlockTokenizerSpec((words,), sources="none", max_length=2))(
        Rows((Pair("", "x y"), Pair("a b c", "x")))
    )
    assert piece.drop_reasons.tolist() == [KEPT, KEPT]
    assert split(piece.source) == [[], []] and [len(row) for row in split(piece.target)] == [3, 2]


def test_a_prompt_has_no_end_mark(words):
    piece = BlockTokenizer(BlockTokenizerSpec((words,), sources="prompt", max_length=9))(Rows((Pair("a b", "x"),)))
    encode = learn("word", ["a b c d e x y z"], size=50).encode
    assert split(piece.source) == [encode("a b")] and split(piece.target) == [[*encode("x"), END]]


def test_what_a_step_leaves_blank_is_counted_as_blank(words):
    asked = BlockTokenizerSpec(
        (words,), (Replace(expression="^b$"), Duplicates(of="source")), max_length=9, blank_rows="error"
    )
    piece = BlockTokenizer(asked)(Rows((Pair("a", "b"), Pair("a", "x"), Pair("b", "x"))))
    assert piece.drop_reasons.tolist() == [BLANK, KEPT, BLANK] and piece.problems["blank"] == 2
    assert len(piece.target.lengths) == 1
    assert (piece.hashes[1] != 0).tolist() == [True, True, True]


def test_hashes_are_zero_where_a_row_did_not_come(words):
    asked = BlockTokenizerSpec(
        (words,), (Identical(), Duplicates(of="pair"), Length(max=2)), max_length=1, bad_rows="skip"
    )
    piece = BlockTokenizer(asked)(Rows((*ROWS, Pair("a b", "x"))))
    assert piece.drop_reasons.tolist() == [TOO_LONG, UNREADABLE, BLANK, BLANK, 0, 2, KEPT, UNREADABLE, 2, TOO_LONG]
    assert (piece.hashes[1] == 0).tolist() == [False, True, True, True, True, False, False, True, False, False]
    assert piece.hashes[1][0] == piece.hashes[1][9] != piece.hashes[1][5]


def test_without_tokenizers_rows_are_only_filtered():
    piece = BlockTokenizer(BlockTokenizerSpec((), STEPS, max_length=1, bad_rows="skip"))(Rows(ROWS))
    assert piece.drop_reasons.tolist() == [KEPT, UNREADABLE, BLANK, BLANK, 0, KEPT, KEPT, UNREADABLE, KEPT]
    assert len(piece.target.lengths) == 0


def test_examples_are_of_what_is_dropped_as_it_was(words):
    asked = BlockTokenizerSpec((words,), (Lowercase(), Identical()), max_length=3, bad_rows="skip", examples=1)
    piece = BlockTokenizer(asked)(Rows((*ROWS, Pair("B", "b"))))
    shown = {drop_reason: found for drop_reason, found in piece.examples.items() if found}
    assert shown == {
        1: [("corpus.tsv:15", Pair("a a", "a a "))],
        TOO_LONG: [("corpus.tsv:16", Pair("a b c d e", "x"))],
    }


def test_an_empty_block(words):
    piece = BlockTokenizer(BlockTokenizerSpec((words,), (Duplicates(),), max_length=5))(Rows(()))
    assert len(piece.drop_reasons) == len(piece.source.lengths) == len(piece.hashes[0]) == 0


def test_what_is_asked_and_what_is_answered_can_be_sent(words):
    asked = BlockTokenizerSpec((words,), (*STEPS, Duplicates()), max_length=3, bad_rows="skip", examples=2)
    piece = BlockTokenizer(pickle.loads(pickle.dumps(asked)))(Rows(ROWS))
    again = pickle.loads(pickle.dumps(piece))
    assert again.drop_reasons.tolist() == piece.drop_reasons.tolist() and split(again.target) == split(piece.target)


@given(
    rows=st.lists(
        st.tuples(st.text("ab \u3000\u0301\u200d😀\x00", max_size=6), st.text("xy \x85\u2028", max_size=6)).map(
            lambda sides: Pair(*sides)
        )
        | st.just(RowError("json", "f:1: no JSON")),
        max_size=8,
    ),
    most=st.integers(1, 4),
    sources=st.sampled_from(["text", "prompt", "none"]),
)
def test_any_rows_against_a_plain_loop(words, rows, most, sources):
    tokenizer = learn("word", ["a b c d e x y z"], size=50)
    piece = BlockTokenizer(
        BlockTokenizerSpec((words,), (Identical(),), sources=sources, max_length=most, bad_rows="skip")
    )(Rows(tuple(rows)))
    drop_reasons, source_ids, target_ids = [], [], []
    for row in rows:
        if isinstance(row, RowError):
            drop_reasons.append(UNREADABLE)
            continue
        reads = sources != "none"
        source, target = tokenizer.encode(row.source) if reads else [], tokenizer.encode(row.target)
        if not row.target.strip() or (reads and not row.source.strip()):
            drop_reasons.append(BLANK)
        elif row.source.strip() == row.target.strip():
            drop_reasons.append(0)
        elif not target or (reads and not source):
            drop_reasons.append(BLANK)
        elif len(source) > most or len(target) > most:
            drop_reasons.append(TOO_LONG)
        else:
            drop_reasons.append(KEPT)
            source_ids.append([*source, END] if sources == "text" else source)
            target_ids.append([*target, END])
    assert piece.drop_reasons.tolist() == drop_reasons
    assert split(piece.source) == source_ids and split(piece.target) == target_ids
    assert sum(piece.problems.values()) == drop_reasons.count(UNREADABLE) + drop_reasons.count(BLANK)


@given(st.lists(st.tuples(st.lists(st.integers(3, 9), max_size=4), st.booleans()), max_size=6))
def test_chosen_rows_against_a_plain_loop(rows):
    ids = FlatSequences(
        np.array([one for row, _ in rows for one in row], dtype=np.int32), np.array([len(row) for row, _ in rows])
    )
    ids = FlatSequences(ids.values, ids.lengths.astype(np.int64))
    found = chosen(ids, np.array([keep for _, keep in rows], dtype=bool))
    assert split(found) == [row for row, keep in rows if keep]


PAIRS = (Pair("the tower was there", "a flower"), Pair("slower mower", "lower power"), Pair("tower", "tower of power"))


class TestDropout:
    def test_variants_differ_and_each_is_the_same_again(self, pieces):
        asked = BlockTokenizerSpec((pieces,), dropout=0.5, max_length=50)
        encoder = BlockTokenizer(asked)
        cuts = [split(encoder(Rows(PAIRS), variant).source) for variant in range(4)]
        assert len({str(cut) for cut in cuts}) > 1
        assert cuts == [split(BlockTokenizer(asked)(Rows(PAIRS), variant).source) for variant in range(4)]
        texts = [[encoder.tokenizers[0].decode(row) for row in cut] for cut in cuts]
        assert texts == [[pair.source for pair in PAIRS]] * 4

    def test_a_cut_does_not_depend_on_the_neighbors(self, pieces):
        encoder = BlockTokenizer(BlockTokenizerSpec((pieces,), dropout=0.5))
        together = split(encoder(Rows(PAIRS)).target)
        assert together == [row for pair in PAIRS for row in split(encoder(Rows((pair,))).target)]

    def test_another_seed_cuts_otherwise(self, pieces):
        found = [
            split(BlockTokenizer(BlockTokenizerSpec((pieces,), dropout=0.5, seed=seed))(Rows(PAIRS)).source)
            for seed in (1, 2)
        ]
        assert found[0] != found[1]

    def test_the_same_rows_are_kept_in_each_variant(self, pieces):
        """Those whose plain cut is short enough, however long this one is."""
        plain = BlockTokenizer(BlockTokenizerSpec((pieces,)))(Rows(PAIRS))
        most = int(sorted(np.maximum(plain.source.lengths, plain.target.lengths))[1]) - 1
        wanted = BlockTokenizer(BlockTokenizerSpec((pieces,), max_length=most))(Rows(PAIRS)).drop_reasons.tolist()
        assert {KEPT, TOO_LONG} == set(wanted)
        encoder = BlockTokenizer(BlockTokenizerSpec((pieces,), dropout=0.9, max_length=most))
        longest = 0
        for variant in range(5):
            piece = encoder(Rows(PAIRS), variant)
            assert piece.drop_reasons.tolist() == wanted
            longest = max(longest, int(piece.source.lengths.max()))
        assert longest > most + 1

    def test_of_words_is_refused(self, words):
        with pytest.raises(VocabularyError, match=r"^tokenizer.dropout: a tokenizer of kind 'word' cannot leave out"):
            BlockTokenizer(BlockTokenizerSpec((words,), dropout=0.1))(Rows(PAIRS))


def test_several_corpora_each_with_its_own_steps(words):
    both = MultiCorpusTokenizer(
        [BlockTokenizerSpec((words,), (Lowercase(),)), BlockTokenizerSpec((words,), (Identical(),))]
    )
    rows = Rows((Pair("A", "A"),))
    assert both((0, 0, rows)).drop_reasons.tolist() == [KEPT] and both((1, 3, rows)).drop_reasons.tolist() == [0]
    assert both.encoders[1].variant == 3
