import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.text.bytes import ByteTokenizer
from weft.text.specials import END, UNKNOWN

TEXT = st.text()  # every string but lone surrogates


@given(TEXT)
def test_byte_round_trip(text):
    tokenizer = learn("byte", [])
    ids = tokenizer.encode(text)
    assert ids == [3 + value for value in text.encode()]
    assert tokenizer.decode(ids) == text
    places = [place for place, character in enumerate(text) for _ in character.encode()]
    assert tokenizer.spans(ids) == [(place, place + 1) for place in places]


@given(st.lists(st.integers(0, 258)))
def test_any_bytes_decode_and_have_places(ids):
    tokenizer = ByteTokenizer()
    text = tokenizer.decode(ids)
    spans = tokenizer.spans(ids)
    assert len(spans) == len(tokenizer.tokens(ids)) == len(ids)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_byte_known_answers():
    tokenizer = ByteTokenizer()
    ids = [*tokenizer.encode("a é"), END]
    assert ids == [100, 35, 198, 172, END]
    assert tokenizer.tokens(ids) == ["a", "␣", "<0xC3>", "<0xA9>", "</s>"]
    assert tokenizer.decode(ids[:3]) == "a \ufffd"
    assert tokenizer.decode([UNKNOWN]) == "⁇"
    with pytest.raises(VocabularyError, match=r"^vocabulary: size 258 is too small; the least size for bytes is 259$"):
        learn("byte", [], size=258)
    assert learn("byte", [], size=8000).size == 259
