"""Where sentences end, and clauses of long ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.texts.sentences import Part, Splitter, split_line, split_long
from weft.errors import DataError


def sentences(line: str) -> list[str]:
    return [part.text for part in split_line(line) if part.is_sentence]


class TestSentences:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("He left. She slept.", ["He left.", "She slept."]),
            ("he hit me with a pie . the king sees the horse . we slept .", None),
            ("Who? Me! No…", ["Who?", "Me!", "No…"]),
            ("Mr. Smith met Dr. Jones. They left.", ["Mr. Smith met Dr. Jones.", "They left."]),
            ("J. R. Tolkien wrote. He smoked.", ["J. R. Tolkien wrote.", "He smoked."]),
            ("It costs 3.50 dollars. Cheap.", ["It costs 3.50 dollars.", "Cheap."]),
            ("See e.g. Paris. Or not.", ["See e.g. Paris.", "Or not."]),
            ('"Go!" He went.', ['"Go!"', "He went."]),
            ("Well... maybe. No.", ["Well... maybe.", "No."]),
            ("C'est M. Dupont. Il dort.", ["C'est M. Dupont.", "Il dort."]),
            ("Das ist z.B. Berlin. Gut.", ["Das ist z.B. Berlin.", "Gut."]),
            ("¿Quién? ¡Yo!", ["¿Quién?", "¡Yo!"]),
            ("我走了。她睡了！", ["我走了。", "她睡了！"]),
            ("वह गया। वह सोई।", ["वह गया।", "वह सोई।"]),
            ("Он ушёл. Она спала.", ["Он ушёл.", "Она спала."]),
            ("- First. Second.", ["First.", "Second."]),
            ("  2) It is. So.  ", ["It is.", "So."]),
            ("## A heading", ["A heading"]),
            ("no end", ["no end"]),
            ("", []),
            ("   ", []),
            ("...", ["..."]),
        ],
    )
    def test_where_they_end(self, line: str, expected: list[str] | None) -> None:
        tokenized = ["he hit me with a pie .", "the king sees the horse .", "we slept ."]
        assert sentences(line) == (tokenized if expected is None else expected)

    @given(st.text(alphabet=st.sampled_from("aB. !?…,;\"')(-*#1。！ \t\u00a0é中"), max_size=60))
    def test_the_parts_are_the_line(self, line: str) -> None:
        parts = split_line(line)
        assert "".join(part.text for part in parts) == line
        assert all(part.text.strip() == part.text for part in parts if part.is_sentence and part.text.strip())
        assert all(part.text for part in parts)

    @pytest.mark.parametrize("piece", ["A. ", ".", "a.", '!" ', " ", "1. ", ",a", "。」", "- "])
    def test_lines_of_any_length(self, piece: str) -> None:
        """In linear time: with a quadratic expression, this would take an hour."""
        line = piece * 200_000
        assert sum(len(part.text) for part in split_line(line)) == len(line)


class TestLongSentences:
    def test_clauses(self) -> None:
        sentence = "when the king had seen the horse, he slept; we left, and he came"
        parts = split_long(sentence, lambda text: len(text) <= 25)
        assert "".join(part.text for part in parts) == sentence
        assert [part.text for part in parts if part.is_sentence] == [
            "when the king had seen the horse,",
            "he slept; we left,",
            "and he came",
        ]

    def test_no_clause_and_no_need(self) -> None:
        assert split_long("aaaa bbbb cccc dddd", lambda text: False) == [Part("aaaa bbbb cccc dddd", True)]
        assert split_long("a, b", lambda text: True) == [Part("a, b", True)]

    @given(st.text(alphabet="ab ,;", max_size=80))
    def test_the_parts_are_the_sentence(self, sentence: str) -> None:
        assert "".join(part.text for part in split_long(sentence, lambda text: len(text) < 20)) == sentence


class TestSplitter:
    def test_a_given_one(self) -> None:
        split = Splitter(lambda line: line.split("|"))
        assert split("a |b|") == [Part("a ", True), Part("|", False), Part("b", True), Part("|", False)]
        with pytest.raises(DataError, match="splitter: 'c' does not stand in the rest of its line; return its text"):
            Splitter(lambda line: ["b", "c"])("a b")

    def test_clauses_are_counted(self) -> None:
        split = Splitter(longest=20)
        assert len(split("when he had seen it, he slept. So.")) == 5 and split.divided == 1
        assert len(split("it is short. So.")) == 3 and split.divided == 1

    def test_words_that_are_abbreviations_before_numbers_only(self) -> None:
        assert sentences("She said no. He left.") == ["She said no.", "He left."]
        assert sentences("See no. 5. It is good.") == ["See no. 5.", "It is good."]
        assert sentences("It is me. You left.") == ["It is me.", "You left."]
