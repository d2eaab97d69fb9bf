import pytest

from weft.errors import VocabularyError
from weft.text.specials import BEGIN, END, SPECIALS, UNKNOWN, visible
from weft.text.vocabulary import LearningOptions, Vocabulary, check_ids, check_text


def test_marks_come_first():
    assert [SPECIALS[UNKNOWN], SPECIALS[BEGIN], SPECIALS[END]] == ["<unk>", "<s>", "</s>"]
    vocabulary = Vocabulary(["x"])
    assert [vocabulary.symbol(id) for id in range(4)] == ["<unk>", "<s>", "</s>", "x"]
    assert len(vocabulary) == 4


def test_most_frequent_first_and_ties_in_code_point_order():
    assert Vocabulary.learn("zebra zébra z", LearningOptions()).symbols == ("z", " ", "a", "b", "r", "e", "é")


def test_the_order_of_the_text_does_not_matter():
    assert (
        Vocabulary.learn("abcabc", LearningOptions()).symbols == Vocabulary.learn("ccbbaa", LearningOptions()).symbols
    )


def test_minimum_count_and_size():
    assert Vocabulary.learn("aaabbc", LearningOptions(minimum_count=2)).symbols == ("a", "b")
    assert Vocabulary.learn("aaabbc", LearningOptions(size=4)).symbols == ("a",)
    assert Vocabulary.learn("aaabbc", LearningOptions(size=100)).symbols == ("a", "b", "c")


def test_extended():
    """New symbols stand behind the old ones, the most frequent first."""
    before = Vocabulary(["b", "a"])
    more = before.extended(["z", "a", "y", "y", "x", "b", "b"])
    assert more.symbols == ("b", "a", "y", "x", "z") and before.symbols == ("b", "a")
    assert before.extended(["z", "y", "y", "a", "a"], minimum_count=2).symbols == ("b", "a", "y")
    assert before.extended([]).symbols == before.symbols


def test_text_spelled_like_a_mark_is_not_the_mark():
    vocabulary = Vocabulary.learn(["</s>", "</s>", "a"], LearningOptions())
    assert vocabulary["</s>"] == 3
    assert vocabulary["<s>"] == UNKNOWN  # not in the text, so unknown, not the begin mark
    assert "<s>" not in vocabulary and "</s>" in vocabulary


def test_unknown_symbols():
    assert Vocabulary(["a"]).ids(["a", "b"]) == [3, UNKNOWN]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Vocabulary.learn("a", LearningOptions(size=3)),
            "vocabulary: size 3 is too small; the least size is 4",
        ),
        (
            lambda: Vocabulary.learn("a", LearningOptions(minimum_count=0)),
            "vocabulary: minimum count 0, expected 1 or more",
        ),
        (lambda: Vocabulary.learn([], LearningOptions()), "vocabulary: there is no text to learn from"),
        (
            lambda: Vocabulary.learn("ab", LearningOptions(minimum_count=2)),
            "vocabulary: no symbol occurs 2 times; lower the minimum count",
        ),
        (lambda: Vocabulary(["a", "b", "a"]), "vocabulary: the symbol 'a' occurs in it twice"),
        (lambda: Vocabulary(["a"]).symbol(4), "id 4 is not in the vocabulary, which has the ids 0 to 3"),
        (lambda: check_ids([1, -1], 4), "id -1 is not in the vocabulary, which has the ids 0 to 3"),
        (lambda: check_text("ab\ud800"), "character 3 is a lone surrogate (U+D800), not text"),
    ],
)
def test_messages(call, message):
    with pytest.raises(VocabularyError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(("piece", "shown"), [("a", "a"), (" ", "␣"), ("a b", "a␣b"), ("\n", "U+000A"), ("é", "é")])
def test_visible(piece, shown):
    assert visible(piece) == shown
