"""ROUGE-L: against the table of the textbook, and the words of the Penn Treebank."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.evaluation.metrics import METRICS
from weft.evaluation.rouge import rouge_l, words
from weft.evaluation.string_distance import common_subsequence

LINE = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=8).map(" ".join)


@given(LINE, st.lists(LINE, min_size=1, max_size=3))
def test_the_score_is_the_definition(hypothesis: str, references: list[str]) -> None:
    ours = hypothesis.split()
    shared = [common_subsequence(ours, reference.split()) for reference in references]
    precision = max(one / len(ours) for one in shared)
    recall = max(one / len(reference.split()) for one, reference in zip(shared, references, strict=True))
    squared = 1.2 * 1.2
    expected = (1 + squared) * precision * recall / (recall + squared * precision) if precision else 0.0
    assert rouge_l(hypothesis, references) == pytest.approx(expected)
    assert METRICS["rouge_l"].compute([hypothesis], [references]).value == pytest.approx(100 * expected)


def test_precision_and_recall_may_be_of_two_references() -> None:
    """All of the hypothesis stands in the long one, and all of the short one in the hypothesis."""
    assert rouge_l("a b c", ["a b c d e f", "a c"]) == pytest.approx(1.0)
    assert rouge_l("a b c", ["a b c d e f"]) < 1.0 and rouge_l("a b c", ["a c"]) < 1.0


def test_recall_matters_more() -> None:
    assert rouge_l("a b c d", ["a b"]) > rouge_l("a b", ["a b c d"])


@pytest.mark.parametrize(
    ("hypothesis", "reference", "score"), [("", "", 1.0), (".", "", 1.0), ("", "a", 0.0), ("a", "!", 0.0)]
)
def test_nothing_said(hypothesis: str, reference: str, score: float) -> None:
    assert rouge_l(hypothesis, [reference]) == score


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a family-friendly café, isn't it?", "it 's a family-friendly café is n't it"),
        ("They’re £20-25; “cheap” - or: not!", "they 're £ 20-25 cheap or not"),
        ("I'd say 1,000.50 (or 3.5) and/or R&B...", "i 'd say 1,000.50 ( or 3.5 ) and/or r&b"),
        ("We'll can't I'm they've", "we 'll ca n't i 'm they 've"),
        ("the center.The 'river' side", "the center the river side"),
        ("ΠΟΛΗ Straße", "πολη straße"),
        ("", ""),
    ],
)
def test_words_are_those_of_the_penn_treebank_without_punctuation(text: str, expected: str) -> None:
    assert words(text) == expected.split()


def test_the_value_is_the_mean_over_lines_in_per_cent() -> None:
    found = METRICS["rouge_l"].compute(["A b.", "c d", "x"], [["a b"], ["c", "c d"], ["y"]])
    assert found.name == "ROUGE-L" and found.value == pytest.approx(200 / 3) and found.better == "higher"
    expected = (
        "nrefs:var|case:lc|tok:ptb without punctuation|beta:1.2|references:best precision, best recall|average:line"
    )
    assert found.signature == f"{expected}|version:weft {version('weft')}"
