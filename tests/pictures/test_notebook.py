"""What translations and runs show in a notebook."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from weft.translation.translator import Translator


def test_a_translation_shows_candidates_and_attention(copier: Translator) -> None:
    translation = copier.translate("a b", n_best=3)
    shown = translation._repr_html_()
    assert shown.startswith('<div class="weft">') and shown.count("<tr>") == 4 and 'class="cell"' in shown
    hostile = replace(translation, text="<img src=x>", source="<b>")._repr_html_()
    assert "<img" not in hostile and "<b>" not in hostile and "&lt;img" in hostile


def test_a_translation_without_attention_or_tokens(copier: Translator) -> None:
    assert "<svg" not in copier.translate("a b", return_attention=False)._repr_html_()
    assert "(empty)" in copier.translate("")._repr_html_()


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
def test_a_run_shows_its_curves(copier: Translator, finished: object) -> None:
    shown = copier._repr_html_()
    assert "copier" in shown and "parameters" in shown and "Loss" in shown and str(copier.folder) in shown
    validated = weft.load(str(finished))._repr_html_()
    assert "validation at step 2" in validated
    unsaved = Translator(copier.model, copier.tokenizers)._repr_html_()
    assert "<svg" not in unsaved and "vocabulary" in unsaved


def test_an_evaluation_shows_its_scores(copier: Translator) -> None:
    shown = weft.evaluate(copier, limit=3)._repr_html_()
    assert "exact match" in shown and "perplexity" in shown and "3 pairs, search:beam" in shown
