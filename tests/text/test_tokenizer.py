"""What holds for every kind, and the files."""

import json
import os
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.recipe.choices import TOKENIZERS, resolve
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import load

DIFFICULT = [
    "",
    "nul \0 byte",
    "🙂 👩‍👩‍👧 🇫🇷",
    "e\u0301té été",
    "שלום עולם",
    "a\rb\r\nc\nd\u2028e\x85f\x0cg",
    "</s> <s> <unk> a</s>b",
    "low lower newest widest",
]
KINDS = {
    "character": learn("character", DIFFICULT),
    "character, tags": learn("character", [*DIFFICULT, "gehen <V><PST(SG)>"], tags=True),
    "character, decomposed": learn("character", [*DIFFICULT, "각 한국어 ệ ḹ"], decompose=True),
    "byte": learn("byte", DIFFICULT),
    "word": learn("word", DIFFICULT),
    "word, white space": learn("word", DIFFICULT, split_punctuation=False),
    "bpe": learn("bpe", DIFFICULT, size=120),
    "bpe, begin": learn("bpe", DIFFICULT, size=120, end_of_word=False, split_punctuation=False),
    "bpe, bytes": learn("bpe", DIFFICULT, size=300, byte_level=True),
    "bpe, bytes, begin": learn("bpe", DIFFICULT, size=300, byte_level=True, end_of_word=False),
    "bpe, falls back to bytes": learn("bpe", DIFFICULT, size=380, byte_fallback=True),
    "bpe, protected": learn("bpe", DIFFICULT, size=120, protect=["low\\w*", "</?s>"]),
    "bpe, protected, begin": learn("bpe", DIFFICULT, size=120, protect=[r"low\w*|\S>"], end_of_word=False),
    "bpe, symbols": learn("bpe", DIFFICULT, size=120, symbols=["<2de>", "<2"]),
    "bpe, symbols, begin": learn("bpe", DIFFICULT, size=120, symbols=["<2de>", "<2"], end_of_word=False),
    "unigram": learn("unigram", DIFFICULT, size=120),
    "unigram, begin": learn("unigram", DIFFICULT, size=120, end_of_word=False, split_punctuation=False),
    "unigram, bytes": learn("unigram", DIFFICULT, size=300, byte_level=True),
    "unigram, falls back to bytes": learn("unigram", DIFFICULT, size=380, byte_fallback=True),
    "unigram, protected": learn("unigram", DIFFICULT, size=120, protect=[r"low\w*"], symbols=["<2de>"]),
    "word, protected": learn("word", DIFFICULT, protect=[r"low\w*"], symbols=["<2de>"]),
    "character, protected": learn("character", DIFFICULT, protect=[r"low\w*"], symbols=["<2de>"]),
}
LONG = [name for name in KINDS if "protected" not in name and "symbols" not in name and "falls" not in name]
every_kind = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())


def test_the_table_names_the_kinds():
    assert {tokenizer.kind for tokenizer in KINDS.values()} == set(TOKENIZERS)
    assert all(kind == resolve(TOKENIZERS, kind).kind for kind in TOKENIZERS)


@every_kind
@pytest.mark.parametrize("text", DIFFICULT)
def test_difficult_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert UNKNOWN not in ids and BEGIN not in ids and END not in ids
    decoded = tokenizer.decode([BEGIN, *ids, END])
    if getattr(tokenizer, "decompose", False):
        text = unicodedata.normalize("NFC", text)
    assert decoded == (" ".join(text.split()) if tokenizer.kind == "word" else text)


@every_kind
def test_nothing_is_nothing(tokenizer):
    assert tokenizer.encode("") == [] and tokenizer.encode_batch([]) == [] and tokenizer.encode_batch([""]) == [[]]
    assert tokenizer.decode([]) == "" and tokenizer.tokens([]) == [] and tokenizer.spans([]) == []
    assert tokenizer.decode([BEGIN, END]) == "" and tokenizer.spans([BEGIN, END]) == [(0, 0), (0, 0)]
    assert tokenizer.tokens([UNKNOWN, BEGIN, END]) == ["<unk>", "<s>", "</s>"]


@every_kind
def test_unknown_symbols(tokenizer):
    ids = tokenizer.encode("ж low")
    if tokenizer.kind == "byte" or "bytes" in next(name for name, one in KINDS.items() if one is tokenizer):
        assert UNKNOWN not in ids and tokenizer.decode(ids) == "ж low"
    else:
        assert UNKNOWN in ids and tokenizer.decode(ids) == "⁇ low"


@every_kind
@given(text=st.text())
def test_batch_and_ranges_and_spans(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.encode_batch([text, "", text]) == [ids, [], ids]
    assert all(0 <= id < tokenizer.size for id in ids) and END not in ids and BEGIN not in ids
    decoded, pieces, spans = tokenizer.decode(ids), tokenizer.tokens(ids), tokenizer.spans(ids)
    assert len(pieces) == len(spans) == len(ids)
    assert all(0 <= start <= end <= len(decoded) for start, end in spans)
    assert spans == sorted(spans)


@every_kind
@given(data=st.data())
def test_any_ids_decode(tokenizer, data):
    """A model may say anything."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1)))
    decoded, pieces, spans = tokenizer.decode(ids), tokenizer.tokens(ids), tokenizer.spans(ids)
    assert all(pieces)
    covered = set()
    for id, (start, end) in zip(ids, spans, strict=True):
        assert 0 <= start <= end <= len(decoded)
        assert id not in (BEGIN, END) or start == end
        assert id != UNKNOWN or decoded[start:end] == "⁇"
        covered |= set(range(start, end))
    assert all(decoded[place] == " " for place in set(range(len(decoded))) - covered)


@pytest.mark.parametrize("tokenizer", [KINDS[name] for name in LONG], ids=LONG)
@pytest.mark.parametrize(
    "line",
    [
        "low. " * 20_000,
        *(
            pytest.param(line, marks=pytest.mark.slow)
            for line in ("low. " * 200_000, "lower" * 200_000, "e\u0301" * 500_000, "'" * 300_000, "<l" * 200_000)
        ),
    ],
)
def test_a_line_of_a_megabyte(tokenizer, line):
    start = time.process_time()
    ids = tokenizer.encode(line)
    tokenizer.decode(ids)
    tokenizer.spans(ids)
    assert ids and time.process_time() - start < 20, "quadratic would be minutes"


@every_kind
def test_what_is_no_text_and_no_id(tokenizer):
    message = r"^character 2 is a lone surrogate \(U\+DFFF\), not text$"
    with pytest.raises(VocabularyError, match=message):
        tokenizer.encode("a\udfff")
    with pytest.raises(VocabularyError, match=message):
        tokenizer.encode_batch(["a", "a\udfff"])
    for call in (tokenizer.decode, tokenizer.tokens, tokenizer.spans):
        for id in (-1, tokenizer.size):
            with pytest.raises(VocabularyError, match=rf"^id {id} is not in the vocabulary, which has the ids 0 to"):
                call([3, id])
    if tokenizer.kind != "byte":
        with pytest.raises(VocabularyError, match=message):
            learn(tokenizer.kind, ["a\udfff"], size=100)


@every_kind
def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("an old file")
    tokenizer.save(path)
    assert os.listdir(tmp_path) == ["tokenizer.json"]  # noqa: PTH208
    loaded = load(path)
    assert type(loaded) is type(tokenizer) and loaded.size == tokenizer.size
    for text in [*DIFFICULT, "ж  low"]:
        ids = tokenizer.encode(text)
        assert loaded.encode(text) == ids
        assert loaded.decode(ids) == tokenizer.decode(ids) and loaded.tokens(ids) == tokenizer.tokens(ids)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    KINDS["character"].save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        KINDS["word"].save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["tokenizer.json"]  # noqa: PTH208


def test_a_joint_vocabulary_is_learned_from_both_sides():
    joint = learn("word", [*["the cat"], *["le chat"]])
    assert UNKNOWN not in joint.encode("the chat le cat")


def test_an_unknown_kind():
    with pytest.raises(VocabularyError, match=r"^unknown kind of tokenizer 'bite'; did you mean 'byte'\?$"):
        learn("bite", [])


UNITS = {"weft_tokenizer": 2, "kind": "word", "split_punctuation": True, "symbols": ["a", "b"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the tokenizer: no such file"),
        ("", "damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model"),
        (
            '{"weft_tokenizer": 2, "ki',
            "damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model",
        ),
        (b"\xff\xfe", "damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model"),
        ("[" * 100_000, "damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model"),
        ("[1]", "not a tokenizer written by weft, nor a tokenizer.json"),
        ("{}", "not a tokenizer written by weft, nor a tokenizer.json"),
        ({**UNITS, "weft_tokenizer": 3}, "written by a newer weft (format 3; this one reads format 2)"),
        (
            {**UNITS, "weft_tokenizer": 1},
            "written by an older weft (format 1; this one reads format 2); learn it again",
        ),
        ({**UNITS, "weft_tokenizer": "x"}, "damaged: its format is 'x', expected a whole number"),
        ({**UNITS, "kind": "wrod"}, "unknown kind of tokenizer 'wrod'; did you mean 'word'?"),
        ({**UNITS, "symbols": None}, "damaged: it has no list of symbols"),
        ({**UNITS, "symbols": ["a", 1]}, "damaged: it has no list of symbols"),
        ({**UNITS, "symbols": ["a", "a"]}, "damaged: vocabulary: the symbol 'a' occurs in it twice"),
        ({**UNITS, "split_punctuation": 1}, "damaged: split_punctuation is 1, expected true or false"),
        ({**UNITS, "kind": "character", "symbols": ["ab"]}, "damaged: 'ab' is not one character"),
        ({**UNITS, "kind": "character", "symbols": ["<V>"]}, "damaged: '<V>' is not one character"),
        ({**UNITS, "kind": "character", "tags": 1}, "damaged: tags is 1, expected true or false"),
        ({**UNITS, "kind": "character", "decompose": 1}, "damaged: decompose is 1, expected true or false"),
        ({**UNITS, "kind": "character", "decompose": True, "symbols": ["é"]}, "damaged: 'é' is not one character"),
        ({**UNITS, "kind": "character", "decompose": True, "symbols": ["각"]}, "damaged: '각' is not one character"),
        (
            {**UNITS, "kind": "character", "tags": True, "symbols": ["<V>", "</s>"]},
            "damaged: '</s>' is not one character or tag",
        ),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path, content, message):
    path = tmp_path / "t.json"
    if content is not None:
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(VocabularyError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_a_folder_is_no_tokenizer(tmp_path):
    with pytest.raises(VocabularyError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: cannot read the tokenizer: is a folder, expected a file"


class TestExtended:
    """Ids for what is new behind those that were given."""

    NEW = ("low ж ж ж", "zebra, zebra! 각字 <V>")

    @every_kind
    def test_what_was_known_is_as_it_was(self, tokenizer):
        more = tokenizer.extended(self.NEW)
        assert type(more) is type(tokenizer) and more.kind == tokenizer.kind and more.size >= tokenizer.size
        every = range(tokenizer.size)
        assert more.tokens(every) == tokenizer.tokens(every)
        for text in DIFFICULT:
            assert more.encode(text) == tokenizer.encode(text)
            assert more.decode(more.encode(text)) == tokenizer.decode(tokenizer.encode(text))

    @every_kind
    def test_what_was_not_is(self, tokenizer):
        more = tokenizer.extended(self.NEW)
        for text in self.NEW:
            assert UNKNOWN not in more.encode(text) and more.decode(more.encode(text)) == text
        new = {id for text in self.NEW for id in more.encode(text) if id >= tokenizer.size}
        assert new == set(range(tokenizer.size, more.size)), "each new id is one that occurs"

    @every_kind
    def test_it_is_another_one(self, tokenizer):
        before = tokenizer.size, tokenizer.encode("ж low")
        tokenizer.extended(self.NEW)
        assert (tokenizer.size, tokenizer.encode("ж low")) == before

    @every_kind
    @pytest.mark.parametrize("texts", [(), ("",), tuple(DIFFICULT)])
    def test_by_nothing_new(self, tokenizer, texts):
        more = tokenizer.extended(texts)
        assert more.size == tokenizer.size and more.tokens(range(more.size)) == tokenizer.tokens(range(more.size))

    @every_kind
    def test_the_order_of_the_texts_does_not_matter(self, tokenizer):
        one, other = tokenizer.extended(self.NEW), tokenizer.extended(reversed(self.NEW))
        assert one.tokens(range(one.size)) == other.tokens(range(other.size))

    @every_kind
    def test_what_is_rare_stays_unknown(self, tokenizer):
        more = tokenizer.extended(self.NEW, minimum_count=3)
        if more.size == tokenizer.size:  # bytes
            assert UNKNOWN not in tokenizer.encode("ж")
            return
        assert more.size == tokenizer.size + 1 and more.tokens([tokenizer.size]) == ["ж"]
        assert UNKNOWN in more.encode("字")

    @every_kind
    def test_save_and_load(self, tokenizer, tmp_path):
        more = tokenizer.extended(self.NEW)
        more.save(tmp_path / "t.json")
        loaded = load(tmp_path / "t.json")
        assert loaded.size == more.size
        for text in (*DIFFICULT, *self.NEW, "я low"):
            assert loaded.encode(text) == more.encode(text)
        again = loaded.extended(["я я"])
        assert again.encode(self.NEW[0]) == more.encode(self.NEW[0]) and UNKNOWN not in again.encode("я")

    @every_kind
    def test_what_is_no_text(self, tokenizer):
        form = getattr(tokenizer, "scheme", None)
        if tokenizer.kind == "byte" or (form and (form.byte_level or form.byte_fallback)):
            return
        with pytest.raises(VocabularyError, match="lone surrogate"):
            tokenizer.extended(["a\udfff"])

    @pytest.mark.parametrize("end_of_word", [True, False])
    def test_pieces_that_were_learned_are_still_made(self, end_of_word):
        """BPE learns no merges: what is new is spelled."""
        before = learn("bpe", ["low lower lowest"] * 5, size=30, end_of_word=end_of_word)
        more = before.extended(["lowish żubr"] * 5)
        assert more.merges() == before.merges()
        assert sorted(more.tokens(range(before.size, more.size))) == sorted("hiżub")
        assert more.tokens(more.encode("low"))[0] == "low" and more.decode(more.encode("żubr low")) == "żubr low"
