"""Which examples a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.apps.reporting.examples import choose_examples, token_probability
from weft.apps.reporting.outputs import TestOutputs
from weft.evaluation.confusions import WORDS, compare_units
from weft.evaluation.metrics import MetricScore
from weft.evaluation.pairs import EvaluationItems, EvaluationSet
from weft.evaluation.significance import Resampling
from weft.translation.results import Translation


class Line(NamedTuple):
    source: str
    output: str
    reference: str
    log_probability: float


def outputs(lines: Sequence[Line]) -> TestOutputs:
    translations = [
        Translation(source, text, log_p, log_p, text.split(), [5] * len(text.split()), [], [], None, None, [], "end")
        for source, text, _, log_p in lines
    ]
    items = EvaluationItems([line.source for line in lines], [[line.reference] for line in lines])
    return TestOutputs(
        "test set",
        "",
        "test",
        EvaluationSet([], {}, items),
        MetricScore("perplexity", 1.0, "", "lower"),
        Resampling(),
        translations=translations,
        right=[line.output == line.reference for line in lines],
        aligned=[compare_units(line.output, [line.reference], WORDS) for line in lines],
        target_units=WORDS,
    )


def test_sure_and_wrong_then_far_then_unsure_and_right_then_long() -> None:
    lines = [
        Line("s0", "a b", "a c", -0.3),  # wrong and sure
        Line("s1", "x y z", "a b c", -9.0),  # wrong, unsure, far away
        Line("s2", "a", "a", -0.1),
        Line("s3", "b", "b", -3.0),  # right and unsure
        Line("a long source", "c", "c", -0.2),
        Line("s0", "a b", "a c", -0.3),  # the same again
    ]
    chosen = list(choose_examples(outputs(lines)))
    assert chosen == [
        ("most confident errors", 0),
        ("most confident errors", 1),
        ("least confident right outputs", 3),
        ("least confident right outputs", 4),
        ("longest right output", 2),
    ]


def test_empty_outputs_are_far_and_never_sure() -> None:
    assert list(choose_examples(outputs([Line("s", "", "a", -0.01)]))) == [("farthest from the reference", 0)]
    assert list(choose_examples(outputs([]))) == []


def test_the_probability_of_a_token() -> None:
    (translation,) = outputs([Line("s", "a b", "a b", -3.0)]).translations
    assert token_probability(translation) == 0.36787944117144233  # e^(−3 / (2 tokens + the end token))
