import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.text.specials import BEGIN, END, UNKNOWN

TEXT = st.text()  # every string but lone surrogates


@given(st.lists(TEXT, min_size=1).filter(any))
def test_character_round_trip(texts):
    tokenizer = learn("character", texts)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert [text[start:end] for start, end in tokenizer.spans(ids)] == list(text)


def test_character_known_answers():
    tokenizer = learn("character", ["abba c"])
    assert tokenizer.size == 7
    assert tokenizer.encode("abxc ") == [4 - 1, 4, UNKNOWN, 6, 5]
    ids = [BEGIN, *tokenizer.encode("a x"), END]
    assert tokenizer.decode(ids) == "a ⁇"
    assert tokenizer.tokens(ids) == ["<s>", "a", "␣", "<unk>", "</s>"]
    assert tokenizer.spans(ids) == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)]


TAGGED = st.lists(st.sampled_from([*"<>/abs (;\n🙂", "<V>", "<PST(SG)>", "<s>", "</s>", "<unk>", "<a b>"])).map("".join)


@given(st.lists(TAGGED | TEXT, min_size=1).filter(any))
def test_character_round_trip_with_tags(texts):
    tokenizer = learn("character", texts, tags=True)
    for text in texts:
        ids = tokenizer.encode(text)
        assert UNKNOWN not in ids and BEGIN not in ids and END not in ids
        assert tokenizer.decode(ids) == text
        symbols = [text[start:end] for start, end in tokenizer.spans(ids)]
        assert "".join(symbols) == text and symbols == literal_symbols(text)


def literal_symbols(text):
    """Character by character: at a ``<``, look for the end of a tag."""
    symbols = []
    while text:
        end = text.find(">") + 1
        tag = text[:end]
        inside = tag[1:-1]
        is_tag = tag.startswith("<") and inside and not any(c in "<>" or c.isspace() for c in inside)
        symbols.append(tag if is_tag and tag not in ("<unk>", "<s>", "</s>") else text[0])
        text = text[len(symbols[-1]) :]
    return symbols


def test_tags_known_answers():
    tokenizer = learn("character", ["gehen <V><PST(SG)>", "n<V>"], tags=True)
    ids = [*tokenizer.encode("neh <V><PST(SG)><PRS>"), END]
    assert tokenizer.tokens(ids) == ["n", "e", "h", "␣", "<V>", "<PST(SG)>", "<unk>", "</s>"]
    assert tokenizer.decode(ids) == "neh <V><PST(SG)>⁇"
    assert tokenizer.spans(ids) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 7), (7, 16), (16, 17), (17, 17)]
    assert learn("character", ["<V>"]).size == 3 + 3 and learn("character", ["<V>"], tags=True).size == 3 + 1


@pytest.mark.parametrize(
    "text", ["<s>", "</s>", "<unk>", "<s></s>", "<<s>>", "<>", "<a b>", "<a\n>", "<a", "a>", "<<", "<"]
)
def test_what_is_no_tag(text):
    tokenizer = learn("character", [text, "<V>"], tags=True)
    assert tokenizer.tokens(tokenizer.encode(text)) == [{" ": "␣", "\n": "U+000A"}.get(c, c) for c in text]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_tag_begins_at_the_last_bracket():
    tokenizer = learn("character", ["<<V>>"], tags=True)
    assert tokenizer.tokens(tokenizer.encode("<<V>>")) == ["<", "<V>", ">"]


KOREAN = "\u1100\u1161\u11a8"  # the letters of 각


@given(st.lists(TEXT, min_size=1).filter(any), st.booleans())
def test_decomposed_round_trip(texts, tags):
    """What comes back is the composed text; the parts of a character have its place."""
    tokenizer = learn("character", texts, decompose=True, tags=tags)
    for text in texts:
        ids = tokenizer.encode(text)
        assert UNKNOWN not in ids
        decoded = tokenizer.decode(ids)
        assert decoded == unicodedata.normalize("NFC", text)
        spans = tokenizer.spans(ids)
        assert spans == sorted(spans) and {place for start, end in spans for place in range(start, end)} == set(
            range(len(decoded))
        )
        assert all(start < end for start, end in spans)


@given(st.lists(st.integers(0, 10)))
def test_parts_in_any_order_have_places(ids):
    """A model may say an accent before its letter, or a mark between the two."""
    tokenizer = learn("character", ["각ệḹ"], decompose=True)
    decoded, spans = tokenizer.decode(ids), tokenizer.spans(ids)
    assert len(spans) == len(ids)
    for id, (start, end) in zip(ids, spans, strict=True):
        assert 0 <= start <= end <= len(decoded) and (start == end) == (id in (BEGIN, END))
        assert id != UNKNOWN or decoded[start:end] == "⁇"


def test_decomposed_known_answers():
    tokenizer = learn("character", ["각 é"], decompose=True)
    assert tokenizer.size == 3 + len(KOREAN) + len(" e\u0301")
    ids = tokenizer.encode("각 é")
    assert ids == tokenizer.encode(f"{KOREAN} e\u0301") and UNKNOWN not in ids, "however it is written"
    assert tokenizer.tokens(ids)[:5] == [*KOREAN, "␣", "e"]
    assert tokenizer.decode(ids) == "각 é"
    assert tokenizer.spans([BEGIN, *ids, END]) == [(0, 0), *[(0, 1)] * 3, (1, 2), *[(2, 3)] * 2, (3, 3)]
    assert tokenizer.decode(ids[:2]) == "가", "the letters so far"
    assert tokenizer.decode(tokenizer.encode("가")) == "가", "other syllables of known letters are known"
    assert tokenizer.decode(tokenizer.encode("나")) == "⁇\u1161", "of an unknown letter only that is lost"
    q = learn("character", ["q\u0301"], decompose=True)
    assert q.spans(q.encode("q\u0301")) == [(0, 1), (1, 2)], "there is no one character for it"


def test_decomposing_is_left_alone_unless_asked_for():
    tokenizer = learn("character", ["각é"])
    assert tokenizer.size == 3 + 2 and tokenizer.encode("e\u0301") == [UNKNOWN, UNKNOWN]


def test_a_tag_may_be_decomposed():
    tokenizer = learn("character", ["a<é>각"], tags=True, decompose=True)
    ids = tokenizer.encode("a<é>각")
    assert len(ids) == 2 + len(KOREAN) and tokenizer.decode(ids) == "a<é>각"
    assert tokenizer.spans(ids) == [(0, 1), (1, 4), *[(4, 5)] * 3]
