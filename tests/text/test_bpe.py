"""Merges against a literal learner, text against a literal encoder, files against the library alone."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise, product
from random import Random

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.text.bpe import END_OF_WORD
from weft.text.specials import END, SPECIALS, UNKNOWN
from weft.text.tokenizer import load

LECTURE = "low lower newest widest"
FORMS = [
    dict(zip(("end_of_word", "byte_level", "split_punctuation"), form, strict=True))
    for form in product((1, 0), repeat=3)
]
FORMS = [{name: bool(value) for name, value in form.items()} for form in FORMS]
every_form = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: ",".join(k for k, v in form.items() if v) or "plain"
)


def literal_merges(words: list[list[str]], limit: int, minimum_count: int = 1) -> list[tuple[str, str]]:
    """Learn merges as the docstring says, counting everything anew each time."""
    symbols = sorted({symbol for word in words for symbol in word if symbol != END_OF_WORD})
    ids = {symbol: id for id, symbol in enumerate([*symbols, END_OF_WORD])}  # ▁ comes after the letters used here
    merges: list[tuple[str, str]] = []
    while len(merges) < limit:
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], ids[pair[0]], ids[pair[1]]))
        if counts[best] < minimum_count:
            break
        merges.append(best)
        ids.setdefault("".join(best), len(ids))
        words = [literal_merge(word, best) for word in words]
    return merges


def literal_merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for symbol in word:
        if merged and (merged[-1], symbol) == pair and not (merged[-1] == "" or symbol == ""):
            merged[-1] += symbol
            merged.append("")  # closes the piece: it takes no part in a second merge of this pass
        else:
            merged.append(symbol)
    return [symbol for symbol in merged if symbol]


def test_the_ties_of_the_lecture():
    """(l,o) (o,w) (w,e) (e,s) (s,t) (t,</w>) are tied at two: the smallest left symbol wins, then the oldest piece."""
    words = [[*word, END_OF_WORD] for word in LECTURE.split()]
    counts = Counter(pair for word in words for pair in pairwise(word))
    tied = {pair for pair, count in counts.items() if count == 2}
    assert tied == {("l", "o"), ("o", "w"), ("w", "e"), ("e", "s"), ("s", "t"), ("t", "</w>")}
    merges = learn("bpe", [LECTURE], size=100).merges()
    assert merges[:6] == [("e", "s"), ("l", "o"), ("t", "</w>"), ("es", "t</w>"), ("lo", "w"), ("d", "est</w>")]
    assert merges == literal_merges(words, 100)


def test_the_ties_of_the_lecture_without_end_of_word():
    merges = learn("bpe", [LECTURE], size=100, end_of_word=False).merges()
    assert merges[:5] == [("e", "s"), ("l", "o"), ("▁", "lo"), ("es", "t"), ("▁lo", "w")]


CORPORA = st.lists(st.lists(st.text("abcdé", min_size=1, max_size=9), min_size=1, max_size=12), min_size=1, max_size=4)


@settings(max_examples=300)
@given(corpus=CORPORA, limit=st.integers(0, 40), minimum_count=st.integers(1, 3))
def test_merges_are_those_of_the_literal_learner(corpus, limit, minimum_count):
    texts = [" ".join(words) for words in corpus]
    words = [[*word, END_OF_WORD] for text in texts for word in text.split(" ")]
    alphabet = {symbol for word in words for symbol in word}
    tokenizer = learn("bpe", texts, size=3 + len(alphabet) + limit, minimum_count=minimum_count)
    expected = literal_merges(words, limit, minimum_count)
    assert tokenizer.merges() == expected


@settings(max_examples=200)
@given(corpus=CORPORA, text=st.text("abcdé", max_size=12))
def test_encoding_applies_the_merges_in_their_order(corpus, text):
    tokenizer = learn("bpe", [" ".join(words) for words in corpus], size=40)
    word = [*text, END_OF_WORD] if text else []
    known = {symbol for words in corpus for part in words for symbol in part} | {END_OF_WORD}
    word = [symbol if symbol in known else "⁇" for symbol in word]
    for pair in tokenizer.merges():
        word = literal_merge(word, pair)
    bare = [piece.removesuffix(END_OF_WORD) or "␣" for piece in word]
    assert [piece.replace("<unk>", "⁇") for piece in tokenizer.tokens(tokenizer.encode(text))] == bare


@every_form
def test_learning_does_not_depend_on_order_threads_or_process(form, tmp_path):
    random = Random(1)
    texts = ["".join(random.choices("abcdeé. '", k=60)) for _ in range(300)]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    learn("bpe", texts, size=420, **form).save(tmp_path / "here.json")
    code = (
        "import json, sys; from weft.text.bpe import BPE; from weft.text.vocabulary import LearningOptions;"
        "texts = json.load(open(sys.argv[1] + '/texts.json'))[::-1];"
        f"BPE.learn(texts, LearningOptions(size=420, **{form!r})).save(sys.argv[1] + '/there.json')"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()


@every_form
@given(text=st.text())
def test_the_library_alone_encodes_and_decodes_the_file_identically(form, text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"{form}.json"
    if not path.exists():
        learn("bpe", [LECTURE, "l'ami </s> (dé)!  x ▁ \t"], size=310, **form).save(path)
    ours, library = load(path), tokenizers.Tokenizer.from_file(str(path))
    for line in (text, "lower l'ami  widest ", "</s>"):
        ids = ours.encode(line)
        assert library.encode(line).ids == ids
        if UNKNOWN not in ids:
            assert library.decode(ids, skip_special_tokens=False) == ours.decode(ids)


@every_form
@given(text=st.text(st.sampled_from("aé .,'’-\t\n\r\u00a0</s>w_▁🙂\u0301א")))
def test_round_trip_with_all_white_space(form, text):
    tokenizer = learn("bpe", [text, "x"], size=320, **form)
    ids = tokenizer.encode(text)
    assert UNKNOWN not in ids
    assert tokenizer.decode(ids) == (text if form["byte_level"] else text.replace("▁", "_"))


@given(text=st.text())
def test_byte_level_knows_everything(text):
    tokenizer = BYTES
    assert tokenizer.decode(tokenizer.encode(text)) == text


BYTES = learn("bpe", ["x"], size=259 + 1, byte_level=True)


@every_form
def test_merges_never_spell_a_mark(form):
    corpus = ["</s>a a</s> x</s>y <s> <unk>z </s></s> </s>b"] * 9
    tokenizer = learn("bpe", corpus, size=400, **form)
    assert "</s>" not in ["".join(pair) for pair in tokenizer.merges()]
    for text in (*corpus, *SPECIALS, "a</s>", "</s>a", "</w>", "a</w>b"):
        ids = tokenizer.encode(text)
        assert END not in ids and 1 not in ids
        if "w" not in text or form["byte_level"]:
            assert tokenizer.decode(ids) == text


def test_an_unknown_character_keeps_its_spaces():
    for end_of_word in (True, False):
        tokenizer = learn("bpe", [LECTURE], size=60, end_of_word=end_of_word)
        ids = tokenizer.encode("low ж lower жж")
        assert tokenizer.decode(ids) == "low ⁇ lower ⁇⁇"
        assert ids.count(UNKNOWN) == 3


def test_every_character_may_end_a_word():
    tokenizer = learn("bpe", ["qa"], size=60)
    assert tokenizer.decode(tokenizer.encode("aq q")) == "aq q"


def test_punctuation_is_no_part_of_a_word():
    tokenizer = learn("bpe", ["l'ami. l'ami, (ami)"] * 5, size=200)
    assert tokenizer.tokens(tokenizer.encode("l'ami. (ami)")) == ["l'", "ami", ".", "(", "ami", ")"]
    glued = learn("bpe", ["l'ami. l'ami, (ami)"] * 5, size=200, split_punctuation=False)
    assert glued.tokens(glued.encode("l'ami. (ami)")) == ["l'ami.", "(ami)"]


def test_pieces_and_spans():
    tokenizer = learn("bpe", [LECTURE], size=26)
    ids = [*tokenizer.encode("lower  widest"), END]
    text = tokenizer.decode(ids)
    assert text == "lower  widest"
    assert tokenizer.tokens(ids) == ["low", "er", "␣", "␣", "widest", "</s>"]
    assert tokenizer.spans(ids) == [(0, 3), (3, 5), (5, 5), (6, 6), (7, 13), (13, 13)]


def test_size_limits():
    assert learn("bpe", [LECTURE], size=20).size == 20
    assert learn("bpe", [LECTURE], size=14).merges() == []
    assert learn("bpe", [LECTURE], size=10_000).size == 29  # nothing is left to merge
    assert learn("bpe", [LECTURE], size=10_000, minimum_count=2).size == 19


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([LECTURE], {}, "vocabulary: bpe needs a size, for example 8000"),
        (
            [LECTURE],
            {"size": 13},
            "vocabulary: size 13 is too small: there are 11 different characters; the least size is 14",
        ),
        (
            [LECTURE],
            {"size": -5, "byte_level": True},
            "vocabulary: size -5 is too small: there are 256 different bytes; the least size is 259",
        ),
        ([LECTURE], {"size": 99, "minimum_count": 0}, "vocabulary: minimum count 0, expected 1 or more"),
        ([], {"size": 99}, "vocabulary: there is no text to learn from"),
        ([""], {"size": 99}, "vocabulary: there is no text to learn from"),
    ],
)
def test_messages_of_learning(texts, options, message):
    with pytest.raises(VocabularyError) as caught:
        learn("bpe", texts, **options)
    assert str(caught.value) == message


def test_an_error_in_the_texts_comes_through():
    def texts():
        yield "a"
        raise KeyError("from the reader")

    with pytest.raises(KeyError, match="from the reader"):
        learn("bpe", texts(), size=100)


def test_external_and_damaged_files(tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(path))
    assert load(path).kind == "external"
    learn("bpe", [LECTURE], size=40).save(path)
    good = json.loads(path.read_text())

    def changed(**model):
        path.write_text(json.dumps({**good, "model": {**good["model"], **model}}))
        return failure(path)

    vocabulary = good["model"]["vocab"]
    assert changed(vocab={**vocabulary, "<unk>": 2, "</s>": 0}) == f"{path}: damaged: the special tokens have other ids"
    assert changed(vocab={**vocabulary, "new": 999}) == f"{path}: damaged: its ids have gaps"
    assert changed(merges=[["x", "y"]]).startswith(f"{path}: damaged: ")
    assert changed(merges=[["x"]]).startswith(f"{path}: damaged: ")
    assert changed(vocab=[]).startswith(f"{path}: damaged: ")
    assert "\n" not in changed(merges=None)


def test_a_file_that_is_known_to_be_good(tmp_path):
    """Its merges are parsed and given to the library when there is a text."""
    path = tmp_path / "tokenizer.json"
    tokenizer = learn("bpe", [LECTURE], size=40)
    tokenizer.save(path)
    for content in (path.read_text(), json.dumps(json.loads(path.read_text()))):  # not as weft writes it
        path.write_text(content)
        loaded = load(path, check=False)
        assert loaded.size == tokenizer.size and not {"_library", "_merges"} & {*vars(loaded)}
        assert loaded.encode(LECTURE) == tokenizer.encode(LECTURE) and "_library" in vars(loaded)
        assert loaded.merges() == tokenizer.merges() and loaded.library_json() == tokenizer.library_json()
        assert loaded.extended(["xyz"]).encode("xlow") == tokenizer.extended(["xyz"]).encode("xlow")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character", "byte"])
def test_unchecked_files_of_every_kind(tmp_path, kind):
    text = "low lower newest widest " * 20 + '"merges": ['
    learn(kind, [text], size=300 if kind == "byte" else 60).save(tmp_path / "x")
    checked, unchecked = (load(tmp_path / "x", check=check) for check in (True, False))
    assert unchecked.kind == kind and unchecked.encode(text) == checked.encode(text)


def failure(path) -> str:
    with pytest.raises(VocabularyError) as caught:
        load(path)
    return str(caught.value)


@every_form
def test_dropout(form):
    tokenizer = learn("bpe", [LECTURE, "l'ami (dé)"] * 3, size=330, **form)
    text = "lower  l'ami newest жлоб"
    whole = tokenizer.encode(text)
    assert tokenizer.encode_with_dropout(text, 0, Random(0)) == whole
    cut_up = tokenizer.encode_with_dropout(text, 0.5, Random(0))
    assert cut_up == tokenizer.encode_with_dropout(text, 0.5, Random(0))
    assert cut_up != tokenizer.encode_with_dropout(text, 0.5, Random(1))
    assert tokenizer.decode(cut_up) == tokenizer.decode(whole) and len(cut_up) > len(whole)
    letters = tokenizer.encode_with_dropout(text, 1, Random(0))
    assert len(letters) == len(text.encode() if form["byte_level"] else text) + 1
    with pytest.raises(VocabularyError, match=r"^dropout 2, expected a probability from 0 to 1$"):
        tokenizer.encode_with_dropout(text, 2, Random(0))
