"""Scores of parts of a test set."""

from __future__ import annotations

import pytest

from weft.evaluation.breakdown import (
    frequency_class,
    parts_by_frequency,
    parts_by_length,
    recall_by_frequency,
    score_parts,
)
from weft.evaluation.confusions import WORDS, compare_units
from weft.evaluation.line_statistics import Outputs, line_statistics
from weft.evaluation.metrics import METRICS, MetricScore
from weft.evaluation.significance import Resampling


def test_every_length_is_in_one_part() -> None:
    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
    parts = parts_by_length(lengths, number=4)
    assert sorted(item for items in parts.values() for item in items) == list(range(16))
    assert list(parts) == ["1 to 3", "4 to 5", "6 to 7", "8 to 9"]
    assert [lengths[item] for item in parts["8 to 9"]] == [9, 8, 9, 9]
    assert parts_by_length([4, 4, 4]) == {"4": [0, 1, 2]}
    assert parts_by_length([0]) == {"0": [0]}


def test_classes_of_frequencies() -> None:
    names = [frequency_class(number) for number in (0, 1, 9, 10, 99, 100, 999, 1000)]
    assert names[0] == "not in the training data" and names[-1] == "1,000 times or more"
    assert len(set(names)) == 5 and names[1] == names[2] != names[3]
    parts = parts_by_frequency([0, 5, 2000, 7])
    assert parts["1 to 9 times"] == [1, 3] and parts["1,000 times or more"] == [2]


@pytest.mark.parametrize("name", ["exact_match", "chrf", "token_error_rate"])
def test_a_part_has_the_score_of_its_items_alone(name: str) -> None:
    texts = ["a b", "a", "c d e", "b"] * 5
    references = [["a b"], ["b"], ["c d f"], ["b"]] * 5
    (statistics,) = line_statistics(name, Outputs(texts, references))
    right = [text in line for text, line in zip(texts, references, strict=True)]
    parts = {"odd": list(range(1, 20, 2)), "few": [0, 1, 2], "none": []}
    odd, few = score_parts(parts, statistics, right, Resampling(100))
    alone = METRICS[name].compute([texts[i] for i in parts["odd"]], [references[i] for i in parts["odd"]])
    assert isinstance(alone, MetricScore) and odd.score == pytest.approx(alone.value)
    assert (odd.items, odd.right) == (10, 0.5) and odd.interval is not None
    assert odd.interval[0] <= odd.score <= odd.interval[1]
    assert few.name == "few" and few.interval is None and few.right == pytest.approx(1 / 3)


def test_a_metric_that_is_no_sum_has_no_score() -> None:
    (part,) = score_parts({"all": [0]}, None, [True], Resampling(100))
    assert part == ("all", 1, 1.0, None, None)


def test_recall_by_training_frequency() -> None:
    lines = [compare_units("the cat sat", ["the dog sat"], WORDS), compare_units("the", ["the emu"], WORDS)]
    found = recall_by_frequency(lines, {"the": 5000, "sat": 20, "dog": 12})
    assert found == [
        ("not in the training data", 1, 0.0),
        ("10 to 99 times", 2, 0.5),
        ("1,000 times or more", 2, 1.0),
    ]
