"""Intervals and p-values: those of sacrebleu where it has them, and of exhaustive enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from sacrebleu.significance import PairedTest, estimate_ci

from weft.errors import RecipeError
from weft.evaluation import significance
from weft.evaluation.line_statistics import LineStatistics, Outputs, line_statistics
from weft.evaluation.sacrebleu_metrics import reference_streams, sacrebleu_metric
from weft.evaluation.significance import (
    Resampling,
    bootstrap_scores,
    difference_interval,
    exact_interval,
    interval,
    p_value,
    randomized_differences,
    score_interval,
)

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "log", ".", "quickly"]
RESAMPLING = Resampling(samples=200)


def texts(error_rate: float, references: list[list[str]], seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < error_rate else word for word in line[0].split())
        for line in references
    ]


@pytest.fixture(scope="module")
def systems() -> tuple[list[list[str]], list[str], list[str]]:
    draw = random.Random(5)
    references = [[" ".join(draw.choices(WORDS, k=draw.randint(3, 12)))] for _ in range(41)]
    return references, texts(0.30, references, 1), texts(0.22, references, 2)


def theirs(metric: Any, systems: Any, kind: str) -> Any:
    """The result of sacrebleu for the second system."""
    references, first, second = systems
    test = PairedTest(
        [("a", first), ("b", second)],
        {"metric": metric},
        reference_streams(references),
        test_type=kind,
        n_samples=RESAMPLING.samples,
    )
    return next(rows[1] for name, rows in test()[1].items() if name != "System")


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
@pytest.mark.parametrize(("kind", "test"), [("ar", "randomization"), ("bs", "bootstrap")])
def test_the_tests_of_sacrebleu(name: str, kind: str, test: str, systems: Any, monkeypatch: Any) -> None:
    """The same samples for the same seed, so the same p-values; TER has so few values that some samples are equal."""
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    references, *outputs = systems
    first, second = (line_statistics(name, Outputs(lines, references))[0] for lines in outputs)
    expected = theirs(sacrebleu_metric(name), systems, kind)
    assert second.of_all() == pytest.approx(expected.score)
    if test == "bootstrap":
        sampled = bootstrap_scores(second, RESAMPLING)
        assert estimate_ci(sampled) == pytest.approx((expected.mean, expected.ci), rel=1e-5)
        low, high = interval(sampled)
        assert (high - low) / 2 == pytest.approx(expected.ci, rel=1e-5)
    p = p_value(first, second, RESAMPLING._replace(test=test))
    equal = 0
    if test == "randomization":
        chance = randomized_differences(first, second, RESAMPLING)
        equal = int(np.sum(abs(chance - abs(second.of_all() - first.of_all())) < 1e-9))
        assert name == "ter" or not equal
    assert p == pytest.approx(expected.p_value + equal / 201) and 0.005 < p < 0.9


def right(*lines: int) -> LineStatistics:
    return LineStatistics(np.array([(100.0 * line, 1.0) for line in lines]), lambda sums: float(sums[0] / sums[1]))


def test_randomization_is_the_exact_test_with_enough_samples() -> None:
    """All 2ⁿ ways to exchange outputs, one by one."""
    first, second = [1, 0, 0, 1, 0, 0, 1, 0, 0], [1, 1, 1, 0, 1, 1, 1, 0, 1]
    difference = abs(sum(second) - sum(first))
    counted = 0
    for exchanged in itertools.product([False, True], repeat=9):
        a = [y if swap else x for x, y, swap in zip(first, second, exchanged, strict=True)]
        b = [x if swap else y for x, y, swap in zip(first, second, exchanged, strict=True)]
        counted += abs(sum(a) - sum(b)) >= difference
    p = p_value(right(*first), right(*second), Resampling(samples=20_000))
    assert p == pytest.approx(counted / 2**9, abs=0.01)


@pytest.mark.parametrize("test", significance.TESTS)
def test_equal_runs_do_not_differ(test: str) -> None:
    run = right(1, 0, 1, 1, 0)
    assert p_value(run, run, Resampling(200, 1, test)) == 1.0


def test_one_line_is_no_evidence() -> None:
    assert p_value(right(0, 1, 0, 1), right(1, 1, 0, 1), Resampling(200)) == 1.0


def test_a_large_difference_is_significant() -> None:
    assert p_value(right(*[0] * 40), right(*[1] * 40), Resampling(200)) == pytest.approx(1 / 201)
    assert interval(bootstrap_scores(right(*[1] * 40), Resampling(200))) == (100.0, 100.0)


@pytest.mark.parametrize("items", [1, 2, 8, 100])
def test_an_exact_interval(items: int) -> None:
    """Its limit is the share that would give this result in 2.5 % of all cases."""
    lower, upper = exact_interval(items, 100.0)
    assert upper == 100.0 and (lower / 100) ** items == pytest.approx(0.025)
    assert exact_interval(items, 0.0) == pytest.approx((0.0, 100.0 - lower))


def test_the_interval_of_a_share_of_none_or_all() -> None:
    """All samples are alike; that does not prove that the score of all texts is 0 or 100 %."""
    none, half, every = right(*[0] * 40), right(*[0, 1] * 20), right(*[1] * 40)
    for name in ("exact match", "token match@5", "item error rate"):
        assert score_interval(name, none, np.zeros(200)) == exact_interval(40, 0.0)
        assert score_interval(name, every, np.full(200, 100.0)) == exact_interval(40, 100.0)
        assert score_interval(name, half, np.arange(200.0)) == (5.0, 194.0)
    assert score_interval("BLEU", none, np.zeros(200)) == (0.0, 0.0)


def test_the_interval_of_a_difference_of_no_line_or_all() -> None:
    none, half, every = right(*[0] * 40), right(*[0, 1] * 20), right(*[1] * 40)
    sampled, (least, most) = np.arange(200.0), exact_interval(40, 100.0)
    for same in (none, half, every):
        assert difference_interval("exact match", same, same, np.zeros(200)) == (least - most, most - least)
    assert difference_interval("exact match", none, every, sampled) == (least, most)
    assert difference_interval("exact match", every, none, sampled) == (-most, -least)
    assert difference_interval("exact match", none, half, sampled) == (5.0, 194.0)
    assert difference_interval("BLEU", none, none, np.zeros(200)) == (0.0, 0.0)


def test_an_interval_leaves_out_one_fortieth_at_each_end() -> None:
    assert interval(np.arange(200.0)[::-1]) == (5.0, 194.0)


def test_the_seed_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = right(*[0, 1] * 20), right(*[1, 1, 0, 0] * 10)
    once = bootstrap_scores(run, Resampling(100))
    assert np.array_equal(once, bootstrap_scores(run, Resampling(100)))
    assert not np.array_equal(once, bootstrap_scores(run, Resampling(100, seed=2)))
    p = p_value(run, other, Resampling(2_000))
    monkeypatch.setattr(significance, "MAX_NUMBERS", 7 * 40)  # seven samples at a time
    assert np.array_equal(once, bootstrap_scores(run, Resampling(100)))
    assert len(randomized_differences(run, other, Resampling(100))) == 100
    assert p_value(run, other, Resampling(2_000)) == pytest.approx(p, abs=0.05)


@pytest.mark.parametrize(
    ("resampling", "message"),
    [
        (Resampling(99), "samples: 99 was given; expected at least 100"),
        (Resampling(seed=-1), "seed: -1 was given; expected 0 or more"),
        (Resampling(test="t"), "test: 't' was given; use randomization or bootstrap"),
    ],
)
def test_bad_settings(resampling: Resampling, message: str) -> None:
    with pytest.raises(RecipeError) as refusal:
        resampling.check()
    assert str(refusal.value) == message
