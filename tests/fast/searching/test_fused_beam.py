"""Fused steps of a beam and the backtrace of their records: on a GPU, against the plain functions on the same GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from fixtures.search_requests import beam
from fixtures.small_networks import neural
from weft.fast.searching import fused_beam
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_only
from weft.search.beam import BeamOptions, BeamStep
from weft.search.loop import StepRecords
from weft.search.paths import PathRecord
from weft.search.ranking import PendingHypotheses, Ranking

SOURCES, LIMITS = [[3, 7, 5], [10], [4, 4, 4, 4, 4, 4, 4, 4, 4]], [7, 40, 5]


def step(**changes: Any) -> BeamStep:
    given = {"n_best": 1, "return_attention": False, "return_trace": False, **changes}
    return BeamStep(None, BeamOptions(), end=2, constraints=(), **given)  # type: ignore[arg-type]


def test_a_cpu_takes_plain_steps() -> None:
    logits_RV = torch.zeros(5, 11)
    assert not fused_beam.is_fused(step(), None, logits_RV, (), None)  # type: ignore[arg-type]
    values = torch.zeros(1, 2, 3)
    steps = [StepRecords(torch.arange(2), PathRecord(values, values, values, None, None, None))]
    assert not fused_beam.is_packed(steps, None, 5, Ranking())  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["feeding", "transformer"])
@pytest.mark.parametrize(
    "search", [{"size": 5}, {"size": 3, "stop": "outranked"}, {"size": 2, "min_lengths": [2, 5, 0]}]
)
@torch.no_grad()
def test_the_same_outputs(kind: str, search: dict[str, Any]) -> None:
    model, device = copy.deepcopy(neural(kind, vocabulary=17)).cuda(), torch.device("cuda")
    memory = model.encode(Ragged.of(SOURCES, device))
    found = beam(model, memory, LIMITS, device=device, **search)
    assert isinstance(found, PendingHypotheses)
    with plain_only():
        expected = beam(model, memory, LIMITS, device=device, **search)
    for [ours], [plain] in zip(found, expected, strict=True):
        assert ours.tokens == plain.tokens and ours.ended == plain.ended
        assert ours.token_scores == pytest.approx(plain.token_scores, abs=2e-3)
        assert ours.gap == (None if plain.gap is None else pytest.approx(plain.gap, abs=2e-3))
