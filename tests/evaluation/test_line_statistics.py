"""Metrics as sums over lines: equal to the metrics themselves, also of resampled lines."""

from __future__ import annotations

import random

import numpy as np
import pytest

from weft.evaluation.line_statistics import SACREBLEU, UNITS, WITHOUT, Outputs, edit_statistics, line_statistics
from weft.evaluation.max_match import Edit, score_edits
from weft.evaluation.metrics import METRICS, compute_metrics, number_of_references

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "log", ".", "quickly"]
OF_WORDS = [name for name in METRICS if name != "brackets"]  # whose lines are trees: test_brackets.py
NAMES = [*(name for name in OF_WORDS if name not in WITHOUT), "exact_match@2", "token_match@3"]


def corpus(seed: int, *, several: bool, lines: int = 23) -> Outputs:
    """References, and outputs with some words changed; some lines are right, one is empty, one loops."""
    draw = random.Random(seed)
    references = [[" ".join(draw.choices(WORDS, k=draw.randint(2, 9)))] for _ in range(lines)]
    n_best = []
    for line in references:
        outputs = [
            " ".join(draw.choice(WORDS) if draw.random() < 0.25 else word for word in line[0].split()) for _ in range(3)
        ]
        n_best.append(outputs)
        if several and draw.random() < 0.5:
            line.append(" ".join(draw.choices(WORDS, k=5)))
    n_best[3][0], n_best[5][0] = "", "the cat " * 6
    sources = [" ".join(draw.choices(WORDS, k=4)) for _ in range(lines)]
    return Outputs([best[0] for best in n_best], references, sources, n_best)


def computed(name: str, outputs: Outputs) -> list[float]:
    texts, references, sources, n_best = outputs
    return [score.value for score in compute_metrics([name], texts, references, sources=sources, n_best=n_best)]


def chosen(outputs: Outputs, lines: list[int]) -> Outputs:
    return Outputs(*([column[line] for line in lines] for column in outputs))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("several", [False, True])
def test_the_sum_over_all_lines_is_the_metric(name: str, several: bool) -> None:
    if several and name in UNITS:
        pytest.skip("takes one reference")
    outputs = corpus(1, several=several)
    assert [one.of_all() for one in line_statistics(name, outputs)] == pytest.approx(computed(name, outputs))


@pytest.mark.parametrize("name", NAMES)
def test_resampled_lines_need_no_texts(name: str) -> None:
    outputs = corpus(2, several=False)
    statistics = line_statistics(name, outputs)
    for seed in range(3):
        lines = random.Random(seed).choices(range(23), k=23)
        expected = computed(name, chosen(outputs, lines))
        assert [one.score(one.lines[lines].sum(0)) for one in statistics] == pytest.approx(expected)


def test_every_metric_has_statistics_or_is_known_to_have_none() -> None:
    outputs = corpus(3, several=False)
    assert [name for name in OF_WORDS if not line_statistics(name, outputs)] == list(WITHOUT)
    assert set(SACREBLEU) <= set(METRICS) and set(UNITS) <= set(METRICS)


def test_edits_of_annotators() -> None:
    """Of every line the annotator counts who does in the whole corpus."""
    gold = [[[Edit(0, 1, (("b",),))], []], [[Edit(1, 2, ((),)), Edit(2, 2, (("x",),))], [Edit(0, 1, (("q",),))]]]
    outputs = Outputs(["b b", "q c"], [["b b", "a b"], ["a x", "q c"]], ["a b", "a c"])
    counts = score_edits(outputs.sources, outputs.texts, gold)
    values = [statistics.of_all() for statistics in edit_statistics(outputs, gold)]
    assert values == pytest.approx([100 * counts.precision, 100 * counts.recall, 100 * counts.f_score])
    assert np.array_equal(edit_statistics(outputs, gold)[0].lines.sum(0), counts)
    assert number_of_references(outputs.references) == "2"
