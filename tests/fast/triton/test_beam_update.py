"""Searches whose steps are fused on a GPU, against the plain steps on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from fixtures.search_requests import beam, greedy
from fixtures.small_networks import neural
from weft.fast.recording.search import CudaGraphLoop
from weft.ragged import Ragged
from weft.search.constraints import NoLoops
from weft.search.ranking import Ranking
from weft.search.repetition import LoopLimits

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
LOOPS = (NoLoops(LoopLimits(copies=2, tokens=3)),)
SEARCHES: dict[str, dict[str, Any]] = {
    "of five": {"size": 5},
    "of one": {"size": 1},
    "outranked": {"size": 3, "stop": "outranked"},
    "provable": {"size": 3, "stop": "provable"},
    "steps": {"size": 2, "stop": "steps"},
    "gnmt": {"size": 3, "ranking": Ranking("gnmt", 0.6)},
    "sum": {"size": 3, "ranking": Ranking("none")},
    "without loops": {"size": 3, "constraints": LOOPS},
    "minimum lengths": {"size": 3, "min_lengths": [2, 5, 0]},
    "greedy": {},
    "greedy without loops": {"constraints": LOOPS, "min_lengths": [1, 4, 0]},
}


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("kind", ["feeding", "transformer"])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_outputs(name: str, kind: str, graphs: bool) -> None:
    model, search = neural(kind, vocabulary=17), greedy if "greedy" in name else beam
    sources, limits = [[3, 7, 5], [10], [4, 4, 4, 4, 4, 4, 4, 4, 4]], [7, 40, 5]
    expected = search(model, model.encode(Ragged.of(sources)), limits, **SEARCHES[name])
    there, device = copy.deepcopy(model).cuda(), torch.device("cuda")
    memory = there.encode(Ragged.of(sources, device))
    loop = CudaGraphLoop(device) if graphs else None
    for _ in range(2 if graphs else 1):
        found = search(there, memory, limits, device=device, loop=loop, **SEARCHES[name])
        for [ours], [theirs] in zip(found, expected, strict=True):
            assert ours.tokens == theirs.tokens and ours.ended == theirs.ended
            assert ours.score == pytest.approx(theirs.score, rel=1e-3, abs=1e-3)
            assert ours.token_scores == pytest.approx(theirs.token_scores, abs=2e-3)
            assert (ours.gap is None) == (theirs.gap is None)
            assert ours.gap is None or ours.gap == pytest.approx(theirs.gap, abs=2e-3)
