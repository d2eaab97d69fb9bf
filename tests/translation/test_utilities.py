from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.recipe.choices import UTILITIES as NAMES
from weft.recipe.choices import resolve
from weft.text.string_distance import edit_distance
from weft.translation.mbr import expected_utilities

UTILITIES = {name: resolve(NAMES, name) for name in NAMES}
PAIRS = [
    ("the cat sat on the mat today", "the cat sits on the mat today"),
    ("he lives in Paris , with his dog .", "He lives in Paris, with a dog."),
    ("yes", "yes"),
    ("yes", "no"),
    ("a", "abcdefgh"),
    ("abcdefgh", "a"),
    ("aaaaaaaaaa", "aaaa"),
    ("il m'a entarté", "il m' a  entarté\t"),
    ("日本語の文 です", "日本語 の文"),
    ("", "something"),
    ("something", ""),
    ("", ""),
    ("  ", "\u2003"),
]
quick = settings(deadline=None, max_examples=150)
TEXTS = st.text("ab c.,'é\t", max_size=25)


def theirs(name: str, hypothesis: str, reference: str) -> float:
    whole = {"chrf": sacrebleu.sentence_chrf, "bleu": sacrebleu.sentence_bleu}[name]
    return whole(hypothesis, [reference]).score / 100


@pytest.mark.parametrize("name", ["chrf", "bleu"])
@pytest.mark.parametrize(("hypothesis", "reference"), PAIRS)
def test_the_same_as_sacrebleu(name: str, hypothesis: str, reference: str) -> None:
    assert UTILITIES[name](hypothesis, reference) == pytest.approx(theirs(name, hypothesis, reference), abs=1e-8)


@pytest.mark.parametrize("name", ["chrf", "bleu"])
@quick
@given(TEXTS, TEXTS)
def test_the_same_as_sacrebleu_for_any_text(name: str, hypothesis: str, reference: str) -> None:
    assert UTILITIES[name](hypothesis, reference) == pytest.approx(theirs(name, hypothesis, reference), abs=1e-8)


@quick
@given(TEXTS, TEXTS)
def test_what_every_utility_promises(hypothesis: str, reference: str) -> None:
    for name, utility in UTILITIES.items():
        assert 0.0 <= utility(hypothesis, reference) <= 1.0 + 1e-12
        if hypothesis.strip() or name in ("exact", "edit"):
            assert utility(hypothesis, hypothesis) == pytest.approx(1.0)


@quick
@given(TEXTS, TEXTS)
def test_edit_and_exact(hypothesis: str, reference: str) -> None:
    longer = max(len(hypothesis), len(reference), 1)
    assert UTILITIES["edit"](hypothesis, reference) == 1 - edit_distance(hypothesis, reference) / longer
    assert UTILITIES["exact"](hypothesis, reference) == (1.0 if hypothesis == reference else 0.0)


def test_edit_by_hand() -> None:
    assert UTILITIES["edit"]("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert UTILITIES["edit"]("", "ab") == 0.0


@pytest.mark.parametrize(
    ("name", "winner"),
    [("chrf", "the cat sat on the mat"), ("bleu", "the cat sat on the mat"), ("edit", "the cat sat on the mat")],
)
def test_minimum_risk_finds_the_middle(name: str, winner: str) -> None:
    texts = ["a dog", "the cat sat on a mat", "the cat sat on the mat", "the cats sat on the mat", "a dog"]
    expected = expected_utilities(texts, UTILITIES[name])
    assert texts[expected.index(max(expected))] == winner


def test_minimum_risk_with_equality_is_the_majority() -> None:
    texts = ["a dog", "the cat sat on a mat", "the cat sat on the mat", "a dog"]
    assert expected_utilities(texts, UTILITIES["exact"]) == [0.5, 0.25, 0.25, 0.5]
