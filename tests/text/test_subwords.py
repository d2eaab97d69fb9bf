"""Words that subwords are learned from: those of ordinary length are whole, longer ones are cut."""

import pytest

from weft.errors import WeftWarning
from weft.text import subwords
from weft.text.pretokenization import BOUNDARY, Pretokenization
from weft.text.subwords import MAX_LEARNED_WORD, count_words
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions


def counts(*texts: str, **options: bool) -> dict[str, int]:
    scheme = Pretokenization.from_options(LearningOptions(**options))
    return dict(count_words(texts, scheme, split_specials=False))


@pytest.mark.filterwarnings("error")
def test_the_longest_word_that_is_whole():
    word = "a" * (MAX_LEARNED_WORD - 1)
    assert counts(f"{word} b") == {word + BOUNDARY: 1, "b" + BOUNDARY: 1}


def test_a_longer_word_is_cut_and_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(subwords, "MAX_LEARNED_WORD", 4)
    message = "vocabulary: a word of more than 4 characters without a space; it is cut into pieces to learn from"
    with pytest.warns(WeftWarning, match=f"^{message}$"):
        assert counts("abcdabcdab", "abc", "abcdabcdab") == {"abcd": 4, "ab" + BOUNDARY: 2, "abc" + BOUNDARY: 1}
    message = "vocabulary: 2 words of more than 4 characters without a space; they are cut into pieces to learn from"
    with pytest.warns(WeftWarning, match=f"^{message}$"):
        assert counts("abcde 12345", end_of_word=False) == {BOUNDARY + "abc": 1, "de": 1, BOUNDARY + "123": 1, "45": 1}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_line_without_spaces_is_learned_from_and_round_trips(kind):
    line = "abcdefghij" * 20_000  # SentencePiece fails on it as a whole; merging it as a whole takes minutes
    with pytest.warns(WeftWarning, match="a word of more than 1,000 characters"):
        tokenizer = learn(kind, [line], LearningOptions(size=60))
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line and len(ids) < len(line) / 2
