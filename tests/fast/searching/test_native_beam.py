"""Compiled steps of a beam against the plain ones: every value of the state and of the record, and whole searches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.search_requests import beam
from fixtures.small_networks import neural
from weft.fast.cpu import compiled
from weft.fast.searching.top_k import is_native_update, native_update
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_of, plain_only
from weft.search.beam import BeamOptions, BeamState, BeamStep
from weft.search.interface import SearchRequest
from weft.search.loop import SearchState
from weft.search.ranking import Ranking
from weft.tree import leaves

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")
END = 2


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


def step_of(size: int, **changes: Any) -> BeamStep:
    options = BeamOptions(size=size, ranking=Ranking("power", 0.7), **changes)
    return BeamStep(None, options, END, 1, (), False, False)  # type: ignore[arg-type]


def state_of(size: int, *, is_first: bool, length: int, max_length: int) -> SearchState:
    request = SearchRequest(memory=torch.zeros(1, 3), max_lengths=[max_length], begin=1, end=END)
    scores_BK = torch.randn(1, size).sort(descending=True).values
    if is_first:
        scores_BK = torch.full((1, size), -torch.inf)
        scores_BK[0, 0] = 0.0
    extra = BeamState(scores_BK, scores_BK, torch.tensor([[1]]), torch.full((1, 1), -torch.inf), None, None)
    state = SearchState.start(request, torch.randn(size, 5), rows=size, extra=extra)
    return state._replace(length_1=torch.tensor([length]))


@pytest.mark.parametrize("vocabulary", [4, 7, 131])
@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("length", [3, 8])
def test_equal_to_plain_steps(vocabulary: int, size: int, is_first: bool, length: int) -> None:
    for seed in range(9):
        torch.manual_seed(seed)
        step, state = step_of(size), state_of(size, is_first=is_first, length=length, max_length=9)
        logits_RV = torch.randn(size, vocabulary)
        logits_RV[:, END] += seed % 3
        if seed == 8:
            logits_RV[:, 3:] = -torch.inf
        given = (state, logits_RV.clone(), state.model_state, None)
        assert is_native_update(step, *given)
        ours, record = native_update(step, *given)
        with plain_only():
            theirs, expected = plain_of(BeamStep.update)(step, state, logits_RV, state.model_state, None)
        exists_BK = ~expected.ranking_BK.isneginf()  # nothing reads the parent, token or log p of an empty slot
        for name in ("parents_BK", "tokens_BK", "totals_BK", "ranking_BK"):
            torch.testing.assert_close(getattr(record, name)[exists_BK], getattr(expected, name)[exists_BK], msg=name)
        for name in ("ends_BK", "end_ranking_BK", "stopped_B", "ranking_BK"):
            torch.testing.assert_close(getattr(record, name), getattr(expected, name), msg=name)
        for name in ("end_parents_BK", "end_totals_BK"):
            of_ended = (getattr(one, name)[expected.ends_BK] for one in (record, expected))
            torch.testing.assert_close(*of_ended, msg=name)
        torch.testing.assert_close(record.following_BG, expected.following_BG)
        assert torch.equal(ours.done_B, theirs.done_B) and torch.equal(ours.length_1, theirs.length_1)
        assert torch.equal(ours.extra.finished_BG, theirs.extra.finished_BG)
        torch.testing.assert_close(ours.extra.scores_BK, theirs.extra.scores_BK)
        if exists_BK.all():
            assert torch.equal(ours.tokens_R, theirs.tokens_R)
            assert all(map(torch.equal, leaves(ours.model_state), leaves(theirs.model_state)))


@pytest.mark.parametrize("kind", ["feeding", "transformer"])
@pytest.mark.parametrize("search", [{"size": 5}, {"size": 3, "min_lengths": [2]}, {"size": 2, "finish": 1}])
@torch.no_grad()
def test_searches_find_the_same(kind: str, search: dict[str, Any]) -> None:
    network = neural(kind, vocabulary=17)
    memory = network.encode(Ragged.of([[3, 7, 5]]))
    [found] = beam(network, memory, [9], n_best=2, **search)
    with plain_only():
        [expected] = beam(network, memory, [9], n_best=2, **search)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tokens == theirs.tokens and ours.ended == theirs.ended
        assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-5)
        assert ours.gap == (None if theirs.gap is None else pytest.approx(theirs.gap, abs=1e-5))


def test_which_steps_are_native() -> None:
    state, logits_RV = state_of(3, is_first=True, length=1, max_length=9), torch.zeros(3, 11)
    assert is_native_update(step_of(3), state, logits_RV, (), None)
    for other in (step_of(3, stop="outranked"), step_of(3, groups=3)):
        assert not is_native_update(other, state, logits_RV, (), None)
    assert not is_native_update(step_of(3), state, logits_RV.double(), (), None)
