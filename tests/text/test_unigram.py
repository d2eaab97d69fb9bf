"""SamplingFilter against an exhaustive search, learning against itself in another process."""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.text.specials import UNKNOWN
from weft.text.tokenizer import load

CORPUS = ["low lower lowest newer newest wider widest", "the new lower west l'ami, (été)."] * 5
TOKENIZER = learn("unigram", CORPUS, size=60)


@given(st.text("lowernestid", min_size=1, max_size=9))
def test_the_cut_is_the_likeliest(word):
    scores = dict(TOKENIZER._scores[3:])
    spelled = f"{word}▁"
    best = -math.inf
    for cuts in product((False, True), repeat=len(spelled) - 1):
        places = [0, *(place for place, cut in enumerate(cuts, 1) if cut), len(spelled)]
        pieces = [spelled[start:end] for start, end in pairwise(places)]
        best = max(best, sum(scores.get(piece, -math.inf) for piece in pieces))
    found = sum(TOKENIZER._scores[id][1] for id in TOKENIZER.encode(word))
    assert found == pytest.approx(best)


@pytest.mark.parametrize("choices", [{}, {"end_of_word": False}, {"byte_level": True}, {"protect": [r"\d+"]}])
def test_learning_does_not_depend_on_order_threads_or_process(choices, tmp_path):
    random = Random(1)
    texts = ["".join(random.choices("abcdeé. '1", k=60)) for _ in range(200)]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    learn("unigram", texts, size=420, **choices).save(tmp_path / "here.json")
    code = (
        "import json, sys; from weft.text.unigram import Unigram; from weft.text.vocabulary import LearningOptions;"
        "texts = json.load(open(sys.argv[1] + '/texts.json'))[::-1];"
        f"Unigram.learn(texts, LearningOptions(size=420, **{choices!r})).save(sys.argv[1] + '/there.json')"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()


def test_pieces_are_shared_by_words():
    pieces = TOKENIZER.tokens(range(TOKENIZER.size))
    assert TOKENIZER.size <= 60 and any(len(piece) > 2 for piece in pieces)
    assert TOKENIZER.decode(TOKENIZER.encode("  lowest  ww ")) == "  lowest  ww "


def test_a_run_of_unknown_characters_is_one():
    ids = TOKENIZER.encode("low жж lower")
    assert ids.count(UNKNOWN) == 1 and TOKENIZER.decode(ids) == "low ⁇ lower"


def test_characters_that_sentencepiece_keeps_for_itself():
    texts = ["a\tb \0 ▅ x▅y", "plain \x7f text"]
    tokenizer = learn("unigram", texts, size=60)
    for text in texts:
        assert UNKNOWN not in tokenizer.encode(text) and tokenizer.decode(tokenizer.encode(text)) == text
    assert learn("unigram", ["\t"], size=60).encode("\t")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_falling_back_to_bytes(kind):
    tokenizer = learn(kind, [*CORPUS, "字"], size=400, byte_fallback=True, minimum_count=2)
    ids = tokenizer.encode("low 字🙂 <0xE5>")
    assert UNKNOWN not in ids and tokenizer.decode(ids) == "low 字🙂 <0xE5>"
    assert tokenizer.tokens(ids).count("<0xE5>") == 1, "of the character; the text spelled so is in smaller pieces"
    assert tokenizer.tokens(tokenizer.encode("字"))[:3] == ["<0xE5>", "<0xAD>", "<0x97>"]
    assert tokenizer.spans(tokenizer.encode("a字"))[1:4] == [(1, 2)] * 3
    every = learn(kind, [*CORPUS, "字"], size=400, byte_fallback=True)
    assert "字" in every.tokens(range(every.size))


@pytest.mark.parametrize(
    ("texts", "choices", "message"),
    [
        (CORPUS, {}, "vocabulary: unigram needs a size, for example 8000"),
        (["ab"], {"size": 4}, "vocabulary: size 4 is too small: there are 3 different characters; the least size is 6"),
        (CORPUS, {"size": 99, "minimum_count": 0}, "vocabulary: minimum count 0, expected 1 or more"),
        ([], {"size": 99}, "vocabulary: there is no text to learn from"),
        ([""], {"size": 99}, "vocabulary: there is no text to learn from"),
    ],
)
def test_messages_of_learning(texts, choices, message):
    with pytest.raises(VocabularyError) as caught:
        learn("unigram", texts, **choices)
    assert str(caught.value) == message


def test_damaged_files(tmp_path):
    path = tmp_path / "t.json"
    TOKENIZER.save(path)
    good = json.loads(path.read_text())

    def failure(vocabulary):
        path.write_text(json.dumps({**good, "model": {**good["model"], "vocab": vocabulary}}))
        with pytest.raises(VocabularyError) as caught:
            load(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    vocabulary = good["model"]["vocab"]
    assert failure(vocabulary[1:]) == f"{path}: damaged: its special tokens, symbols or bytes have other ids"
    assert failure([*vocabulary, vocabulary[5]]) == f"{path}: damaged: a token occurs in it twice"
    assert failure([*vocabulary, ["x"]]).startswith(f"{path}: damaged: ")
