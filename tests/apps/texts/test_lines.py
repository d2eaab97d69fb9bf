"""Lines of several sentences: what their translations have."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from weft.apps.texts.lines import join_line, translate_lines
from weft.apps.texts.sentences import Part, Splitter
from weft.evaluation.calibrate import calibrate
from weft.text.vocabulary import MAX_TEXT_CHARACTERS
from weft.translation.flags import FlagRules
from weft.translation.load import load
from weft.translation.results import empty_translation
from weft.translation.translator import Translator


class TestTranslations:
    def test_each_sentence_is_translated_alone(self, copier: Translator) -> None:
        line = "  - a b . c d a . b ."
        [joined] = translate_lines(copier, [line])
        alone = [str(one) for one in copier.translate(["a b .", "c d a .", "b ."], return_attention=False)]
        assert joined.text == "  - " + " ".join(alone) and joined.source == line and joined.ended in ("end", "length")
        assert joined.log_probability == pytest.approx(
            sum(one.log_probability for one in copier.translate(["a b .", "c d a .", "b ."], return_attention=False))
        )

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
        splitter = Splitter.of_run(run)
        [joined] = translate_lines(run, ["a b c d a , b c d a b c"], splitter=splitter)
        assert splitter.divided == 1 and joined.source_tokens.count("</s>") == 2
        longer = "a " * (MAX_TEXT_CHARACTERS // 2) + "b"  # than what is tokenized
        assert splitter(longer) == [Part(longer, True)]
