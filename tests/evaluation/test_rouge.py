"""ROUGE-L: against the table of the textbook, and the words of the Penn Treebank; ROUGE of summarization: against the
values of the package rouge-score."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.evaluation.metrics import METRICS
from weft.evaluation.rouge import rouge_1, rouge_2, rouge_l, rouge_l_f1, stemmed_words, words
from weft.text.string_distance import common_subsequence

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
    assert found.signature == f"{expected}|version:weft {weft.__version__}"


@pytest.mark.parametrize(
    ("hypothesis", "references", "values"),
    [
        (
            "Meetings about the connected databases were cancelled!",
            ["The meeting about databases is cancelled"],
            (0.769231, 0.181818, 0.615385),
        ),
        (
            "the cat's 2 hats, happily running",
            ["2 happy cats run in hats", "a cat ran, hatless"],
            (0.615385, 0.0, 0.307692),
        ),
        ("a b a b c", ["a a b b c", "c b a"], (1.0, 0.5, 0.8)),
        ("U.S. e-mail policy (draft_3)", ["Draft 3 of the US email policies"], (0.428571, 0.166667, 0.285714)),
        ("x", ["y"], (0.0, 0.0, 0.0)),
        ("one", ["one"], (1.0, 0.0, 1.0)),
        ("", [""], (0.0, 0.0, 0.0)),
    ],
)
def test_the_values_of_summarization_are_those_of_rouge_score(
    hypothesis: str, references: list[str], values: tuple[float, ...]
) -> None:
    """``RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score_multi``, version 0.1.2."""
    found = [score(hypothesis, references) for score in (rouge_1, rouge_2, rouge_l_f1)]
    assert found == pytest.approx(values, abs=1e-6)


def literal_rouge_n(hypothesis: list[str], reference: list[str], n: int) -> float:
    """Every n-gram of the hypothesis takes away one of the reference."""
    left = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)]
    grams = [tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1)]
    total, common = len(left), 0
    for gram in grams:
        if gram in left:
            left.remove(gram)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(grams), common / total
    return 2 * precision * recall / (precision + recall)


@given(LINE, st.lists(LINE, min_size=1, max_size=3))
def test_n_grams_count_as_often_as_in_both(hypothesis: str, references: list[str]) -> None:
    for n, score in ((1, rouge_1), (2, rouge_2)):
        expected = max(literal_rouge_n(hypothesis.split(), reference.split(), n) for reference in references)
        assert score(hypothesis, references) == pytest.approx(expected)


def test_words_of_any_script() -> None:
    assert stemmed_words("Évènements, Überstraßen: снігу_2 running") == [
        "évènements",
        "überstraßen",
        "снігу",
        "2",
        "run",
    ]


def test_the_mean_over_lines_and_its_signature() -> None:
    found = METRICS["rouge_1"].compute(["a b", "x"], [["a c", "d"], ["y"]])
    assert (found.name, found.value, found.better) == ("ROUGE-1", pytest.approx(25), "higher")
    parts = "nrefs:var|case:lc|tok:letters and digits|stemmer:porter|beta:1|references:best|average:line"
    assert found.signature == f"{parts}|version:weft {weft.__version__}"
    names = [METRICS[name].compute(["a"], ["a"]).name for name in ("rouge_2", "rouge_l_f1")]
    assert names == ["ROUGE-2", "ROUGE-L F1"]
