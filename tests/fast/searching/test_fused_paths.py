"""Fused steps of greedy search, and hypotheses that are assembled on the device, against the plain functions."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
import torch

from fixtures.search_requests import draw, greedy
from fixtures.search_requests import request as request_for
from fixtures.small_networks import neural
from fixtures.table_model import Table, table
from weft.fast.searching import fused_paths
from weft.fast.searching.fused_beam import PackedBeamRecord
from weft.fast.searching.fused_paths import PackedPathRecord, stays_on_device
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_only
from weft.search.loop import SearchInputs, StepLoop, StepRecords
from weft.search.paths import PathRecord, path_hypotheses
from weft.search.ranking import PendingHypotheses, Ranking
from weft.search.sampling import GREEDY, PathStart, PathStep, Sampler

SOURCES, LIMITS = [[3, 7, 5], [10], [4, 4, 4, 4, 4, 4, 4, 4, 4]], [7, 40, 5]
CPU = torch.device("cpu")


def steps_of(chooser: Any, request: Any) -> Sequence[StepRecords]:
    step = PathStep(Table(), chooser, request.end, (), return_attention=False, traced_candidates=0)
    start = PathStart(Table(), request.begin, request.n_best, 0, CPU)
    return StepLoop().search(step, start, SearchInputs.of(request, draws=True))


def packed(steps: StepRecords) -> StepRecords:
    """As the kernel records them."""
    tokens, log_probs, active = steps.records[:3]
    parts = [tokens.int(), log_probs.view(torch.int32), active.int()]
    return StepRecords(steps.sentences, PackedPathRecord(torch.cat(parts, 2)))


@torch.no_grad()
def test_results_do_not_keep_the_encoder_output() -> None:
    """On a GPU it would take memory for as long as somebody keeps a translation."""
    request = request_for(table(3, 9, seed=2), [4, 9, 6])
    steps = steps_of(GREEDY, request)
    memory = weakref.ref(request.memory.logits)
    results = [
        path_hypotheses(steps, request, Ranking(), with_gap=True),
        fused_paths.pending_hypotheses(steps, request, Ranking(), with_gap=True),
    ]
    del request
    assert memory() is None
    assert list(results[0]) == list(results[1])


@torch.no_grad()
@pytest.mark.parametrize("n_best", [1, 3])
def test_hypotheses_that_are_assembled_where_they_are(n_best: int) -> None:
    """On a CPU that is the same place."""
    request = request_for(table(3, 9, seed=2), [4, 9, 6], n_best=n_best)
    steps = steps_of(GREEDY if n_best == 1 else Sampler(), request)
    assert len(steps) > 1 and not fused_paths.is_on_gpu(steps, request, Ranking(), with_gap=True)
    with_gap = n_best == 1
    expected = path_hypotheses(steps, request, Ranking(), with_gap=with_gap)
    found = fused_paths.pending_hypotheses(steps, request, Ranking(), with_gap=with_gap)
    assert isinstance(found, PendingHypotheses) and list(found) == list(expected)
    if n_best == 1:
        of_packed = fused_paths.pending_hypotheses([*map(packed, steps)], request, Ranking(), with_gap=True)
        assert list(of_packed) == list(expected)


@torch.no_grad()
def test_a_cpu_takes_plain_steps() -> None:
    request = request_for(table(3, 9, seed=2), [4, 9, 6])
    state = PathStart(Table(), request.begin, 1, 0, CPU)(SearchInputs.of(request, draws=True))
    step = PathStep(Table(), GREEDY, request.end, (), return_attention=False, traced_candidates=0)
    assert not fused_paths.is_fused(step, state, torch.zeros(3, 9), (), None)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["feeding", "transformer"])
@torch.no_grad()
def test_the_same_outputs(kind: str) -> None:
    model, device = copy.deepcopy(neural(kind, vocabulary=17)).cuda(), torch.device("cuda")
    memory = model.encode(Ragged.of(SOURCES, device))

    def searches() -> list[Any]:
        return [
            greedy(model, memory, LIMITS, device=device),
            draw(model, memory, LIMITS, Sampler(seed=3), n_best=2, device=device),
        ]

    found = searches()
    assert all(isinstance(one, PendingHypotheses) for one in found)
    with plain_only():
        expected = searches()
    for ours, plain in zip(chain(*found), chain(*expected), strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in plain]
        assert ours[0].token_scores == pytest.approx(plain[0].token_scores, abs=2e-3)


def test_records_without_details_stay() -> None:
    values = torch.zeros(2, 3)
    path = PathRecord(values, values, values, None, None, None)
    assert all(map(stays_on_device, (path, PackedBeamRecord(values, values), PackedPathRecord(values))))
    assert not stays_on_device(path._replace(attention_BKS=values))
    assert not stays_on_device((values,))
