from hypothesis import given
from hypothesis import strategies as st

from weft.text.utf8 import decode_bytes, spans_of_bytes


def test_the_bytes_of_a_character_share_its_place():
    parts = [bytes([value]) for value in "né☃".encode()]
    assert spans_of_bytes(parts) == [(0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3)]


def test_invalid_bytes_are_replaced_and_have_places():
    parts = [b"\xe2", b"\x82", b"a", b"\xff", b"\xc3"]
    assert decode_bytes(parts) == "\ufffda\ufffd\ufffd"
    assert spans_of_bytes(parts) == [(0, 1), (0, 1), (1, 2), (2, 3), (3, 4)]


def test_a_surrogate_in_utf8_is_two_or_three_characters():
    assert decode_bytes([b"\xed", b"\xa0"]) == "\ufffd\ufffd"
    assert spans_of_bytes([b"\xed", b"\xa0"]) == [(0, 1), (1, 2)]


def test_nothing_has_an_empty_place():
    assert spans_of_bytes([b"", b"a", b"", b"b", b""]) == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]


@given(st.lists(st.binary(max_size=5)))
def test_spans_cover_the_text_in_order(parts):
    text, spans = decode_bytes(parts), spans_of_bytes(parts)
    end = 0
    for part, (start, after) in zip(parts, spans, strict=True):
        assert start in (end, end - 1) and after >= end, "no gap, and at most one character shared"
        assert (start == after) == (not part)
        end = max(end, after)
    assert end == len(text)


@given(st.lists(st.text(min_size=1, max_size=4)))
def test_spans_of_whole_characters_give_the_parts_back(texts):
    spans = spans_of_bytes([text.encode() for text in texts])
    assert ["".join(texts)[start:end] for start, end in spans] == texts
