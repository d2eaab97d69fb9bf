import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.words import split_with_joiners

TEXT = st.text()  # every string but lone surrogates


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("il m'a entarté.", "il m'￭ a entarté ￭."),
        ("vu (hier)?", "vu (￭ hier ￭) ￭?"),
        ("a(b", "a ￭(￭ b"),
        ("a ( b", "a ( b"),
        ("wait...", "wait ￭. ￭. ￭."),
        ("«l'ami»", "«￭ l'￭ ami ￭»"),
        ("$5", "$￭ 5"),
        ("a/b", "a ￭/￭ b"),
        ("vingt-deux", "vingt-deux"),
        ("l'", "l ￭'"),
        ("x￭y", "x ￭■￭ y"),  # a joiner in the text
        ("￭", "■"),
    ],
)
def test_joiners(text, marked):
    assert split_with_joiners(text) == marked.split(" ")
    tokenizer = learn("word", [text])
    assert tokenizer.decode(tokenizer.encode(text)) == text.replace("￭", "■")


def test_words_between_white_space():
    tokenizer = learn("word", ["il m'a ￭ </s>"], split_punctuation=False)
    ids = tokenizer.encode("il\tm'a ￭ </s>")
    assert tokenizer.tokens(ids) == ["il", "m'a", "■", "</s>"]
    assert END not in ids and UNKNOWN not in ids
    assert tokenizer.decode(ids) == "il m'a ■ </s>"


WORDY = st.lists(st.text(alphabet="abé'’.,-(3_$e\u0301￭אב🙂", min_size=1, max_size=8), min_size=1)


@pytest.mark.parametrize("split_punctuation", [True, False])
@given(parts=WORDY)
def test_word_round_trip(split_punctuation, parts):
    text = " ".join(parts)
    tokenizer = learn("word", [text], split_punctuation=split_punctuation)
    ids = tokenizer.encode(text)
    decoded = tokenizer.decode(ids)
    assert decoded == text.replace("￭", "■")
    assert [decoded[start:end] for start, end in tokenizer.spans(ids)] == tokenizer.tokens(ids)


@given(TEXT)
def test_any_text_comes_back_but_for_its_white_space(text):
    tokenizer = learn("word", [text, "x"])
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.replace("￭", "■").split())


def test_unknown_words_stand_between_spaces():
    tokenizer = learn("word", ["il a dormi."])
    ids = [BEGIN, *tokenizer.encode("il m'a entarté."), END]
    assert tokenizer.decode(ids) == "il ⁇ a ⁇."
    assert tokenizer.tokens(ids) == ["<s>", "il", "<unk>", "a", "<unk>", ".", "</s>"]
    assert tokenizer.spans(ids) == [(0, 0), (0, 2), (3, 4), (5, 6), (7, 8), (8, 9), (9, 9)]
