"""Texts of several sentences: where they are split, that nothing else changes, and what their translations have."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.evaluation.calibrate import calibrate
from weft.translation.flags import FlagRules
from weft.translation.load import load
from weft.translation.results import empty_translation
from weft.translation.texts import Part, join_line, split_line, split_long, translate_lines, translate_text
from weft.translation.translator import Translator


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


class TestTranslations:
    def test_each_sentence_is_translated_alone(self, copier: Translator) -> None:
        line = "  - a b . c d a . b ."
        [joined] = translate_lines(copier, [line])
        alone = [str(one) for one in copier.translate(["a b .", "c d a .", "b ."], return_attention=False)]
        assert joined.text == "  - " + " ".join(alone) and joined.source == line and joined.ended in ("end", "length")
        assert joined.log_probability == pytest.approx(
            sum(one.log_probability for one in copier.translate(["a b .", "c d a .", "b ."], return_attention=False))
        )

    def test_layout(self, copier: Translator) -> None:
        text = "a b\n\n   \n\tc d\r\n- a\n"
        outputs = [str(one) for one in copier.translate(["a b", "c d", "a"], return_attention=False)]
        assert translate_text(copier, text) == "{}\n\n   \n\t{}\r\n- {}\n".format(*outputs)
        assert translate_text(copier, "") == "" and translate_text(copier, " \n") == " \n"

    def test_confidence_and_flags_are_of_sentences(self, copier: Translator) -> None:
        first = replace(empty_translation("a"), text="x", confidence=0.9)
        second = replace(empty_translation("b"), text="y y y", confidence=0.4, ended="length")
        second = replace(second, flag_rules=FlagRules(off=()))
        layout = [Part("a", True), Part("  ", False), Part("b", True)]
        joined = join_line("a  b", layout, [first, second])
        assert (joined.text, joined.confidence, joined.ended) == ("x  y y y", 0.4, "length")
        assert joined.flags == ("cut", "repeats")
        assert join_line("  ", [Part("  ", False)], []).text == "  "

    def test_sentences_longer_than_those_of_training_are_divided(self, copier: Translator, tmp_path: Path) -> None:
        assert copier.folder is not None
        shutil.copytree(copier.folder, tmp_path / "run")
        run = load(tmp_path / "run")
        calibrate(run, [(f"{a} {b} {c}", "a") for a in "abcd" for b in "abcd" for c in "abcd"])
        [joined] = translate_lines(run, ["a b c d a , b c d a b c"])
        assert joined.source_tokens.count("</s>") == 2
