"""What is normal for the outputs of a run, learned from its validation pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.evaluation.flag_rules import learn_flag_rules
from weft.evaluation.pairs import EvaluationItems
from weft.translation.flags import flags_of
from weft.translation.translator import Translator

SOURCES = [f"{a} {b} {c}" for a in "abcd" for b in "abcd" for c in "abc"]


def test_a_flag_that_references_have_is_off(copier: Translator) -> None:
    """The copier copies: its outputs are not untranslated, and repeat what the source repeats."""
    translations = copier.translate(SOURCES)
    copied = learn_flag_rules(copier, EvaluationItems(SOURCES, [[text] for text in SOURCES]), translations)
    assert {"untranslated", "repeats"} <= set(copied.off) and "numbers-differ" not in copied.off
    others = learn_flag_rules(copier, EvaluationItems(SOURCES, [["x y"] for _ in SOURCES]), translations)
    assert others.off == ()


def test_limits_of_lengths(copier: Translator) -> None:
    rules = learn_flag_rules(copier, EvaluationItems(SOURCES, [[text] for text in SOURCES]), copier.translate(SOURCES))
    assert rules.least_ratio == pytest.approx((1 + 3) / (1 + 4) / 1.1) and rules.longest == 4
    assert 0 <= rules.least_attention <= 0.2
    one = copier.translate("a b c", return_attention=False)
    assert "skipped-source" not in flags_of(one, rules)
    assert "skipped-source" in flags_of(replace(one, ids=one.ids[:1]), rules)


def test_neighbors_come_from_the_training_data(copier: Translator) -> None:
    translations = copier.translate(SOURCES)
    rules = learn_flag_rules(copier, EvaluationItems(SOURCES, [[text] for text in SOURCES]), translations)
    assert rules.neighbors.are_known and 0 <= rules.novelty < 1
    unreadable = copier.recipe.model_copy(update={"data": copier.recipe.data.model_copy(update={"train": "none.tsv"})})
    original = copier.recipe
    try:
        copier.recipe = unreadable
        without = learn_flag_rules(copier, EvaluationItems(SOURCES, [[text] for text in SOURCES]), translations)
    finally:
        copier.recipe = original
    assert not without.neighbors.are_known and without.novelty == 1.0
