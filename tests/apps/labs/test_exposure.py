"""The exposure lab: its verdict on made-up numbers, its count of errors, and a world without sampling."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.labs import exposure
from weft.apps.labs.exposure import FREE, LONGEST, SCHEDULED, TEACHER, forced_errors, judge_gaps


def rising(*levels: float) -> list[list[float]]:
    """For each seed, a gap that starts at 0 and whose mean over the second half is the level."""
    steps = range(LONGEST)
    scale = sum(steps[LONGEST // 2 :]) / (LONGEST // 2)
    return [[level * step / scale for step in steps] for level in levels]


@pytest.mark.parametrize(
    ("teacher", "scheduled", "outcome"),
    [
        (rising(30, 33, 31), rising(15, 17, 18), "held"),
        (rising(0, 1, 0), rising(0, 1, 0), "did not hold"),
        (rising(30, 33, 31), rising(30, 33, 31), "did not hold"),
        (rising(30, 33, 31), rising(40, 45, 41), "did not hold"),
        (rising(30, 33, 31), rising(15, 40, 18), "inconclusive"),
        (rising(30), rising(15), "inconclusive"),
    ],
)
def test_the_verdict(teacher: list[list[float]], scheduled: list[list[float]], outcome: str) -> None:
    verdict = judge_gaps({TEACHER: teacher, SCHEDULED: scheduled, FREE: rising(0, 0, 0)})
    assert verdict.outcome == outcome


def test_the_effects() -> None:
    verdict = judge_gaps({TEACHER: rising(30, 34), SCHEDULED: rising(10, 12), FREE: rising(0, 0)})
    assert [check.effect.mean for check in verdict.checks] == pytest.approx([32, 21])


def test_errors_after_the_reference() -> None:
    """A model that predicts the letter after the one it reads, and otherwise the end, which is no letter."""

    def model(source: Any, inputs: Any) -> Any:
        logits_NV = torch.zeros(len(inputs.values), 40)
        logits_NV[torch.arange(len(inputs.values)), (inputs.values + 1) % 40] = 1.0
        logits_NV[:, 2] = 2.0
        return SimpleNamespace(logits_NV=logits_NV)

    def encode_batch(texts: list[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + 10 for letter in text.split()] for text in texts]

    tokenizers = SimpleNamespace(target=SimpleNamespace(encode_batch=encode_batch))
    run: Any = SimpleNamespace(model=model, tokenizers=tokenizers)
    assert forced_errors(run, ["a b c", "c b c"])[1:] == [50, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_sampling_never_is_teacher_forcing() -> None:
    result = exposure(2, quick=True, sampling=0.0, steps=12)
    assert result.verdict.outcome == "did not hold" and result.verdict.checks[1].effect.mean == 0
