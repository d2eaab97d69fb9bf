"""Brackets of trees: examples worked by hand, by the rules of evalb."""

from __future__ import annotations

import pytest

from weft.errors import DataError
from weft.evaluation.brackets import BracketCounts, bracket_scores, count_brackets, parse_tree
from weft.evaluation.line_statistics import Outputs, line_statistics
from weft.evaluation.metrics import compute_metrics

PIE = "(S (NP he) (VP hit (NP me) (PP with (NP a pie))))"
TAGGED = "(TOP (S (NP (PRP he)) (VP (VBD slept) (ADVP (RB well))) (. .)))"


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        (PIE, PIE, (6, 6, 6, 0)),
        ("( S ( NP he ) ( VP hit ( NP me ) ( PP with ( NP a pie ) ) ) )", PIE, (6, 6, 6, 0)),
        ("(S (NP he) (VP hit (NP me) with (NP a pie)))", PIE, (5, 5, 6, 0)),  # no PP
        ("(S (NP he) (VP hit (NP me (PP with (NP a pie)))))", PIE, (5, 6, 6, 0)),  # the PP is attached to me
        ("(S (NP he) (NP hit (NP me) (PP with (NP a pie))))", PIE, (5, 6, 6, 0)),  # a wrong label
        ("(S (NP he) (VP hit (NP (NP me)) (PP with (NP a pie))))", PIE, (6, 7, 6, 0)),  # the same bracket twice
        ("(S (NP he) (VP hit (NP me) (PP with (NP a pie)))", PIE, (0, 0, 6, 1)),  # a parenthesis is missing
        ("(S (NP he) (VP hit (NP me) (PP with (NP a tart))))", PIE, (0, 0, 6, 1)),  # another word
        ("", PIE, (0, 0, 6, 1)),
        (TAGGED, TAGGED, (4, 4, 4, 0)),  # S, NP, VP, ADVP: neither TOP nor tags
        ("(S (NP (PRP he)) (VP (VBD slept) (PRT (RP well))))", TAGGED, (4, 4, 4, 0)),  # PRT is ADVP; no full stop
        ("(TOP (S (NP (NN he)) (VP (VBD slept) (RB well)) (. .)))", TAGGED, (3, 3, 4, 0)),  # a wrong tag is not counted
    ],
)
def test_counts(output: str, reference: str, expected: tuple[int, ...]) -> None:
    assert count_brackets([output], [reference]) == [BracketCounts(*expected)]


@pytest.mark.parametrize("text", ["he", "(S he) (S he)", "(S he))", "(S ())", "(S (NP) he)", "he (S he)", ")", "(S"])
def test_ill_formed_texts(text: str) -> None:
    assert parse_tree(text) is None


def test_sums_over_the_corpus() -> None:
    outputs = ["(S (NP he) (VP hit (NP me) with (NP a pie)))", "(S (NP he) (VP sleeps)", "(S (NP he) (NP left))"]
    references = [PIE, "(S (NP he) (VP sleeps))", "(S (NP he) (VP left))"]
    scores = compute_metrics(["brackets"], outputs, references)
    assert [score.name for score in scores] == [
        "bracket precision",
        "bracket recall",
        "bracket F1",
        "ill-formed trees",
    ]
    matched, output, reference = 5 + 0 + 2, 5 + 0 + 3, 6 + 3 + 3
    expected = [matched / output, matched / reference, 2 * matched / (output + reference), 1 / 3]
    assert [score.value for score in scores] == pytest.approx([100 * value for value in expected])
    statistics = line_statistics("brackets", Outputs(outputs, [[line] for line in references], [], []))
    assert [each.of_all() for each in statistics] == pytest.approx([100 * value for value in expected])


def test_no_bracket_at_all() -> None:
    assert [score.value for score in bracket_scores([BracketCounts(0, 0, 0, 1)])] == [0, 0, 0, 100]


def test_deep_texts() -> None:
    assert parse_tree("(S " * 150 + "he" + ")" * 150) is not None
    assert parse_tree("(S " * 5_000 + "he" + ")" * 5_000) is None


def test_references_are_trees() -> None:
    with pytest.raises(DataError, match="brackets: line 2: the reference 'he left' is not well-formed"):
        count_brackets([PIE, PIE], [PIE, "he left"])
    with pytest.raises(DataError, match="brackets: line 1 has 2 references, expected 1"):
        compute_metrics(["brackets"], [PIE], [[PIE, PIE]])
