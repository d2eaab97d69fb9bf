"""Outputs beside their references, with the differences marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.evaluation.marked_differences import MAX_SHOWN, differences, escaped, marked, shortened


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("the cat sat", "the dog sat", ("the [cat] sat", "the [dog] sat")),
        ("ʒ a ħ a ħ aː n", "ʒ a x a ħ a n", ("ʒ a [ħ] a ħ [aː] n", "ʒ a [x] a ħ [a] n")),
        ("gespielt", "gespielen", ("gespiel[t]", "gespiel[en]")),
        ("a b", "a b c", ("a b", "a b [c]")),
        ("x a b", "a b", ("[x] a b", "a b")),
        ("", "a b", ("(empty)", "[a b]")),
        ("a", "", ("[a]", "(empty)")),
        ("", "", ("(empty)", "(empty)")),
        ("same here", "same here", ("same here", "same here")),
        ("שלום עולם", "שלום לכם", ("שלום [עולם]", "שלום [לכם]")),
        ("我喜欢", "我爱你", ("我[喜欢]", "我[爱你]")),
        ("👍🏽 ok", "👍 ok", ("[👍🏽] ok", "[👍] ok")),
    ],
)
def test_marked(output: str, reference: str, expected: tuple[str, str]) -> None:
    assert marked(output, reference) == expected


def test_another_mark() -> None:
    assert marked("a b", "a c", mark=str.upper) == ("a B", "a C")


def test_characters_that_a_terminal_might_act_on() -> None:
    assert marked("a\x1b[2Jb c", "a c") == ("[a\\x1b[2Jb] c", "[a] c")
    assert escaped("a\u202eb\u200cc\ud800") == "a\\u202eb\u200cc\\ud800"
    assert shortened("a\nb\x07") == "a b\\x07"


def test_long_texts_show_the_first_difference() -> None:
    words = [f"w{number}" for number in range(200)]
    output, reference = marked(" ".join([*words[:150], "x", *words[151:]]), " ".join(words))
    assert output.startswith("… ") and "w149 [x] w151" in output and output.endswith(" …")
    assert "w149 [w150] w151" in reference and len(output) < MAX_SHOWN + 10
    assert shortened(" ".join(words)) == f"{' '.join(words)[:MAX_SHOWN]} …"


def test_a_difference_that_is_long() -> None:
    output, reference = marked("x" * 1_000, "y")
    assert output == f"[{'x' * MAX_SHOWN}] …" and reference == "[y]"


@given(st.text("ab \n", max_size=12), st.text("ab \n", max_size=12))
def test_the_segments_are_the_texts(output: str, reference: str) -> None:
    """Nothing is lost but white space, and what is not marked is the same on both sides."""
    sides = differences(output, reference)
    for segments, text in zip(sides, (output, reference), strict=True):
        assert "".join(segment.text for segment in segments).split() == text.split()
    same = [" ".join(segment.text.strip() for segment in segments if not segment.differs) for segments in sides]
    assert same[0].split() == same[1].split()
