"""Arrays against encoding text by text."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.text import id_rows, specials
from weft.text.vocabulary import Vocabulary
from weft.text.words import WordTokenizer

CORPUS = ["low lower newest widest", "l'ami (dé)!  <2de> x", "ﬁn ａ\u00a0b e\u0301 \t"]
KINDS = {
    "bpe": learn("bpe", CORPUS, size=60),
    "bpe, begin, nfkc": learn("bpe", CORPUS, size=60, end_of_word=False, normalize="nfkc", lowercase=True),
    "bpe, bytes": learn("bpe", CORPUS, size=300, byte_level=True),
    "bpe, symbols": learn("bpe", CORPUS, size=60, symbols=["<2de>", "é"]),
    "unigram": learn("unigram", CORPUS, size=60, symbols=["<2de>"], byte_fallback=False),
    "bpe, protected": learn("bpe", CORPUS, size=60, protect=["w. "]),
    "word": learn("word", CORPUS),
    "word, nfkc": learn("word", CORPUS, normalize="nfkc", symbols=["<2de>"]),
    "character": learn("character", CORPUS),
    "character, decomposed": learn("character", CORPUS, decompose=True),
    "byte": learn("byte", ()),
}
WORDS = {
    "word": KINDS["word"],
    "word, protected": learn("word", ["a (dé)!", "b <2de> wx"], protect=["w"], symbols=["<2de>"]),
    "word, space": WordTokenizer(Vocabulary([" x", "￭ y", "(￭", "z"])),
    "word, line end": WordTokenizer(Vocabulary(["a\nb", "￭.", "z"])),
}
every_kind = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS)
TEXTS = st.lists(st.lists(st.sampled_from([*"low é.'\u00a0\tﬁ\u0301¨ж ", "<2de>", "lower", "  "])).map("".join))


@every_kind
@settings(max_examples=60)
@given(texts=TEXTS)
def test_arrays_are_what_encode_gives(tokenizer, texts):
    ids, lengths = tokenizer.encode_arrays(texts)
    assert ids.dtype == np.int32 and lengths.dtype == np.int64
    expected = [tokenizer.encode(text) for text in texts]
    assert lengths.tolist() == list(map(len, expected))
    assert ids.tolist() == [id for row in expected for id in row]
    assert tokenizer.encode_batch(texts) == expected


@every_kind
def test_what_is_no_text_is_refused_and_forgotten(tokenizer):
    for texts in (["new low", "a\udfff"], ["a\udfff new"]):
        with pytest.raises(VocabularyError, match=r"^character 2 is a lone surrogate \(U\+DFFF\), not text$"):
            tokenizer.encode_arrays(texts)
    assert tokenizer.encode_batch(["new low"]) == [tokenizer.encode("new low")]


@every_kind
def test_it_travels_to_other_processes(tokenizer):
    tokenizer.encode_arrays(CORPUS)
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other.encode_batch(CORPUS) == tokenizer.encode_batch(CORPUS)
    assert other.decode(other.encode(CORPUS[0])) == CORPUS[0]


def test_the_table_is_emptied(monkeypatch):
    monkeypatch.setattr(id_rows, "MAX_CACHED_CHARACTERS", 20)
    tokenizer = learn("bpe", CORPUS, size=60)
    for text in CORPUS * 2:
        assert tokenizer.encode_batch([text, text]) == [tokenizer.encode(text)] * 2
        assert len(tokenizer._cache._indices) < 12


@every_kind
@settings(max_examples=30)
@given(texts=TEXTS)
def test_arrays_are_decoded_as_decode_does(tokenizer, texts):
    rows = [tokenizer.encode(text) for text in texts]
    rows += [[*row[1:], 0, 1] for row in rows if row] + [[]]
    expected = [tokenizer.decode(row) for row in rows]
    assert id_rows.decode_arrays(tokenizer, id_rows.to_arrays(rows)) == expected
    assert id_rows.decode_arrays(tokenizer, id_rows.to_arrays([[2], *rows])) == ["", *expected]
    assert id_rows.decode_arrays(tokenizer, id_rows.to_arrays([])) == []


@pytest.mark.parametrize("tokenizer", WORDS.values(), ids=WORDS)
@settings(max_examples=60)
@given(data=st.data())
def test_words_in_any_order_are_decoded_as_decode_does(tokenizer, data):
    ids = st.sampled_from([id for id in range(tokenizer.size) if id != specials.END])
    rows = data.draw(st.lists(st.lists(ids, max_size=8), max_size=4))
    expected = [tokenizer.decode(row) for row in rows]
    assert id_rows.decode_arrays(tokenizer, id_rows.to_arrays(rows)) == expected


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_an_id_outside_of_the_vocabulary(kind):
    for id in (-1, KINDS[kind].size):
        with pytest.raises(VocabularyError, match=f"id {id} is not in the vocabulary"):
            id_rows.decode_arrays(KINDS[kind], id_rows.to_arrays([[5, id]]))
