"""From a block to ids: every row has a drop reason, and what is kept is encoded, with an end token."""

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
)
from weft.errors import VocabularyError
from weft.recipe import make_recipe
from weft.text.bpe import BPE
from weft.text.specials import END


@dataclass(frozen=True)
class Rows:
    """A block of rows in memory; lines are counted from 11."""

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
def subwords(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    texts = ["there was a tower there", "the flower power of the tower", "mower lower slower"] * 5
    learn("bpe", texts, size=60).save(path)
    return path


def spec(tokenizers, steps=(), *, sources="text", examples=0, dropout=0.0, seed=1, **data):
    """What a worker is told, from settings of [data]."""
    model = {"kind": "seq2seq" if sources == "text" else "language_model"}
    data |= {"prompts": sources == "prompt"}
    tokenizer = {"kind": "bpe", "dropout": dropout}
    recipe = make_recipe({"seed": seed, "data": data, "tokenizer": tokenizer, "model": model})
    return BlockTokenizerSpec(recipe, tokenizers, steps, examples=examples)


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


def test_every_row_has_a_drop_reason(words):
    request = spec((words,), STEPS, max_length=3, bad_rows="skip")
    block = BlockTokenizer(request)(Rows(ROWS))
    assert block.drop_reasons.tolist() == [KEPT, UNREADABLE, BLANK, BLANK, 0, TOO_LONG, KEPT, UNREADABLE, TOO_LONG]
    assert block.fatal is None
    assert block.row_errors == {"columns": 1, "encoding": 1, "blank": 2}
    assert block.first_errors == {
        "columns": "corpus.tsv:12: 1 column, expected 2",
        "encoding": "corpus.tsv:18: not valid UTF-8",
        "blank": "corpus.tsv:13: the source is blank",
    }
    encode = learn("word", ["a b c d e x y z"], size=50).encode
    assert split(block.source) == [[*encode("a b"), END], [*encode("a"), END]]
    assert split(block.target) == [[*encode("x"), END], [*encode("y"), END]]


def test_the_first_bad_row_ends_it(words):
    block = BlockTokenizer(spec((words,)))(Rows(ROWS))
    assert block.fatal == "corpus.tsv:12: 1 column, expected 2; fix it, or set data.bad_rows = 'skip'"


def test_the_first_blank_row_ends_it_if_asked(words):
    block = BlockTokenizer(spec((words,), bad_rows="skip", blank_rows="error"))(Rows(ROWS))
    assert block.fatal == "corpus.tsv:13: the source is blank; fix it, or set data.blank_rows = 'skip'"


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
    block = BlockTokenizer(spec((words,), sources=sources, blank_rows="error"))(Rows((pair,)))
    assert block.fatal == f"corpus.tsv:11: the {side} is blank; fix it, or set data.blank_rows = 'skip'"


def test_a_language_model_has_no_sources(words):
    block = BlockTokenizer(spec((words,), sources="none", max_length=2))(Rows((Pair("", "x y"), Pair("a b c", "x"))))
    assert block.drop_reasons.tolist() == [KEPT, KEPT]
    assert split(block.source) == [[], []] and [len(row) for row in split(block.target)] == [3, 2]


def test_a_prompt_has_no_end_mark(words):
    block = BlockTokenizer(spec((words,), sources="prompt", max_length=9))(Rows((Pair("a b", "x"),)))
    encode = learn("word", ["a b c d e x y z"], size=50).encode
    assert split(block.source) == [encode("a b")] and split(block.target) == [[*encode("x"), END]]


def test_what_a_step_leaves_blank_is_counted_as_blank(words):
    request = spec((words,), (Replace(expression="^b$"), Duplicates(of="source")), max_length=9, blank_rows="error")
    block = BlockTokenizer(request)(Rows((Pair("a", "b"), Pair("a", "x"), Pair("b", "x"))))
    assert block.drop_reasons.tolist() == [BLANK, KEPT, BLANK] and block.row_errors["blank"] == 2
    assert len(block.target.lengths) == 1
    assert (block.hashes[1] != 0).tolist() == [True, True, True]


def test_hashes_are_zero_where_a_row_did_not_come(words):
    request = spec((words,), (Identical(), Duplicates(of="pair"), Length(max=2)), max_length=1, bad_rows="skip")
    block = BlockTokenizer(request)(Rows((*ROWS, Pair("a b", "x"))))
    assert block.drop_reasons.tolist() == [TOO_LONG, UNREADABLE, BLANK, BLANK, 0, 2, KEPT, UNREADABLE, 2, TOO_LONG]
    assert (block.hashes[1] == 0).tolist() == [False, True, True, True, True, False, False, True, False, False]
    assert block.hashes[1][0] == block.hashes[1][9] != block.hashes[1][5]


def test_without_tokenizers_rows_are_only_filtered():
    block = BlockTokenizer(spec((), STEPS, max_length=1, bad_rows="skip"))(Rows(ROWS))
    assert block.drop_reasons.tolist() == [KEPT, UNREADABLE, BLANK, BLANK, 0, KEPT, KEPT, UNREADABLE, KEPT]
    assert len(block.target.lengths) == 0


def test_examples_are_of_what_is_dropped_as_it_was(words):
    request = spec((words,), (Lowercase(), Identical()), max_length=3, bad_rows="skip", examples=1)
    block = BlockTokenizer(request)(Rows((*ROWS, Pair("B", "b"))))
    shown = {reason: pairs for reason, pairs in block.examples.items() if pairs}
    assert shown == {
        1: [("corpus.tsv:15", Pair("a a", "a a "))],
        TOO_LONG: [("corpus.tsv:16", Pair("a b c d e", "x"))],
    }


def test_an_empty_block(words):
    block = BlockTokenizer(spec((words,), (Duplicates(),), max_length=5))(Rows(()))
    assert len(block.drop_reasons) == len(block.source.lengths) == len(block.hashes[0]) == 0


def test_what_is_asked_and_what_is_answered_can_be_sent(words):
    request = spec((words,), (*STEPS, Duplicates()), max_length=3, bad_rows="skip", examples=2)
    block = BlockTokenizer(pickle.loads(pickle.dumps(request)))(Rows(ROWS))
    again = pickle.loads(pickle.dumps(block))
    assert again.drop_reasons.tolist() == block.drop_reasons.tolist() and split(again.target) == split(block.target)


@given(
    rows=st.lists(
        st.tuples(st.text("ab \u3000\u0301\u200d😀\x00", max_size=6), st.text("xy \x85\u2028", max_size=6)).map(
            lambda sides: Pair(*sides)
        )
        | st.just(RowError("json", "f:1: no JSON")),
        max_size=8,
    ),
    max_length=st.integers(1, 4),
    sources=st.sampled_from(["text", "prompt", "none"]),
)
def test_any_rows_against_a_plain_loop(words, rows, max_length, sources):
    tokenizer = learn("word", ["a b c d e x y z"], size=50)
    block = BlockTokenizer(spec((words,), (Identical(),), sources=sources, max_length=max_length, bad_rows="skip"))(
        Rows(tuple(rows))
    )
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
        elif len(source) > max_length or len(target) > max_length:
            drop_reasons.append(TOO_LONG)
        else:
            drop_reasons.append(KEPT)
            source_ids.append([*source, END] if sources == "text" else source)
            target_ids.append([*target, END])
    assert block.drop_reasons.tolist() == drop_reasons
    assert split(block.source) == source_ids and split(block.target) == target_ids
    assert sum(block.row_errors.values()) == drop_reasons.count(UNREADABLE) + drop_reasons.count(BLANK)


@given(st.lists(st.tuples(st.lists(st.integers(3, 9), max_size=4), st.booleans()), max_size=6))
def test_selected_rows_against_a_plain_loop(rows):
    ids = FlatSequences(
        np.array([id for row, _ in rows for id in row], dtype=np.int32), np.array([len(row) for row, _ in rows])
    )
    ids = FlatSequences(ids.values, ids.lengths.astype(np.int64))
    found = ids.select(np.array([keep for _, keep in rows], dtype=bool))
    assert split(found) == [row for row, keep in rows if keep]


PAIRS = (Pair("the tower was there", "a flower"), Pair("slower mower", "lower power"), Pair("tower", "tower of power"))


class TestDropout:
    def test_variants_differ_and_each_is_the_same_again(self, subwords):
        request = spec((subwords,), dropout=0.5, max_length=50)
        tokenizer = BlockTokenizer(request)
        tokenizations = [split(tokenizer(Rows(PAIRS), variant).source) for variant in range(4)]
        assert len({str(tokenization) for tokenization in tokenizations}) > 1
        assert tokenizations == [split(BlockTokenizer(request)(Rows(PAIRS), variant).source) for variant in range(4)]
        texts = [[tokenizer.tokenizers[0].decode(row) for row in tokenization] for tokenization in tokenizations]
        assert texts == [[pair.source for pair in PAIRS]] * 4

    def test_a_cut_does_not_depend_on_the_neighbors(self, subwords):
        tokenizer = BlockTokenizer(spec((subwords,), dropout=0.5))
        together = split(tokenizer(Rows(PAIRS)).target)
        assert together == [row for pair in PAIRS for row in split(tokenizer(Rows((pair,))).target)]

    def test_another_seed_cuts_otherwise(self, subwords):
        found = [
            split(BlockTokenizer(spec((subwords,), dropout=0.5, seed=seed))(Rows(PAIRS)).source) for seed in (1, 2)
        ]
        assert found[0] != found[1]

    def test_the_same_rows_are_kept_in_each_variant(self, subwords):
        """Those whose plain tokenization is short enough, however long this one is."""
        plain = BlockTokenizer(spec((subwords,)))(Rows(PAIRS))
        most = int(sorted(np.maximum(plain.source.lengths, plain.target.lengths))[1]) - 1
        wanted = BlockTokenizer(spec((subwords,), max_length=most))(Rows(PAIRS)).drop_reasons.tolist()
        assert {KEPT, TOO_LONG} == set(wanted)
        tokenizer = BlockTokenizer(spec((subwords,), dropout=0.9, max_length=most))
        longest = 0
        for variant in range(5):
            block = tokenizer(Rows(PAIRS), variant)
            assert block.drop_reasons.tolist() == wanted
            longest = max(longest, int(block.source.lengths.max()))
        assert longest > most + 1

    def test_the_probability_is_that_of_the_recipe(self, subwords, monkeypatch):
        probabilities, original = set(), BPE.encode_with_dropout

        def recorded(self, text, probability, random):
            probabilities.add(probability)
            return original(self, text, probability, random)

        monkeypatch.setattr(BPE, "encode_with_dropout", recorded)
        BlockTokenizer(spec((subwords,), dropout=0.3))(Rows(PAIRS))
        assert probabilities == {0.3}

    def test_of_words_is_refused(self, words):
        with pytest.raises(VocabularyError, match=r"^tokenizer.dropout: a tokenizer of kind 'word' cannot leave out"):
            BlockTokenizer(spec((words,), dropout=0.1))(Rows(PAIRS))


def test_several_corpora_each_with_its_own_steps(words):
    both = MultiCorpusTokenizer([spec((words,), (Lowercase(),)), spec((words,), (Identical(),))])
    rows = Rows((Pair("A", "A"),))
    assert both((0, 0, rows)).drop_reasons.tolist() == [KEPT] and both((1, 3, rows)).drop_reasons.tolist() == [0]
    assert both.tokenizers[1].spec.steps == (Identical(),)
