"""Attention against a loop over rows, queries and items that never sees a pad."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from weft.attention import Attention, attend, make_score
from weft.ragged import Ragged
from weft.recipe.choices import SCORES, resolve

QUERY_SIZE, ITEM_SIZE, VALUE_SIZE = 5, 7, 3
SOURCES = [3, 1, 7, 2]
TARGETS = [2, 5, 1, 3]
CASES = [
    pytest.param(name, project, id=f"{name}{'-project' if project else ''}") for name in SCORES for project in (0, 1)
]


def make(name: str, project: bool, *, items: int = ITEM_SIZE) -> Attention:
    torch.manual_seed(2)
    if resolve(SCORES, name).same_size and not project:
        items = QUERY_SIZE
    keys = values = None
    if project:
        keys, values = nn.Linear(items, QUERY_SIZE, bias=False), nn.Linear(items, VALUE_SIZE, bias=False)
    score = make_score(name, queries=QUERY_SIZE, keys=QUERY_SIZE if project else items, size=11, temperature=0.3)
    return Attention(score, key_projection=keys, value_projection=values).double()


def ragged(lengths: list[int], size: int) -> Ragged:
    layout = Ragged.of([[0] * length for length in lengths])
    return layout.like(torch.randn(sum(lengths), size, dtype=torch.float64))


def item_size(attention: Attention, name: str, project: bool) -> int:
    return QUERY_SIZE if resolve(SCORES, name).same_size and not project else ITEM_SIZE


def slow_attention(attention: Attention, query: Tensor, items: list[Tensor]) -> tuple[Tensor, list[float]]:
    """One query over a list of items: e_j, α = softmax(e), Σ α_j v_j."""
    scores = []
    for item in items:
        key = attention.key_projection(item)[None, None]
        scores.append(attention.score(query[None, None], attention.score.project_keys(key)).item())
    top = max(scores)
    total = sum(math.exp(score - top) for score in scores)
    weights = [math.exp(score - top) / total for score in scores]
    context = sum(weight * attention.value_projection(item) for weight, item in zip(weights, items, strict=True))
    assert isinstance(context, Tensor)
    return context, weights


@pytest.mark.parametrize(("name", "project"), CASES)
def test_over_unequal_lengths(name: str, project: bool) -> None:
    attention = make(name, project)
    items = ragged(SOURCES, item_size(attention, name, project))
    queries = ragged(TARGETS, QUERY_SIZE)
    answers, weights_BTS = attention.attend_ragged(queries, attention.project(items))
    assert weights_BTS.shape == (4, max(TARGETS), max(SOURCES))
    for row, (asked, seen, got) in enumerate(zip(queries.split(), items.split(), answers.split(), strict=True)):
        for time, query in enumerate(asked):
            context, weights = slow_attention(attention, query, list(seen))
            torch.testing.assert_close(got[time], context)
            padded = weights + [0.0] * (max(SOURCES) - len(weights))
            torch.testing.assert_close(weights_BTS[row, time], torch.tensor(padded, dtype=torch.float64))


@pytest.mark.parametrize(("name", "project"), CASES)
def test_over_past(name: str, project: bool) -> None:
    """s_t asks over h_0 = 0 and h_1 … h_{t−1}."""
    attention = make(name, project, items=QUERY_SIZE)
    states = ragged(TARGETS, QUERY_SIZE)
    answers, weights_BTS = attention.attend_to_history(states)
    for row, (own, got) in enumerate(zip(states.split(), answers.split(), strict=True)):
        past = [torch.zeros(QUERY_SIZE, dtype=torch.float64)]
        for time, state in enumerate(own):
            context, weights = slow_attention(attention, state, past)
            torch.testing.assert_close(got[time], context)
            padded = weights + [0.0] * (max(TARGETS) - len(weights))
            torch.testing.assert_close(weights_BTS[row, time], torch.tensor(padded, dtype=torch.float64))
            past.append(state)


@pytest.mark.parametrize(("name", "project"), CASES)
def test_rows_of_one_length_are_prepared_alike(name: str, project: bool) -> None:
    attention = make(name, project)
    items = ragged([3, 3], item_size(attention, name, project))
    for one, other in zip(attention.project(items), attention.project_padded(items.to_padded()), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "project"), CASES)
def test_weights_follow_their_items(name: str, project: bool) -> None:
    attention = make(name, project)
    items = ragged([5], item_size(attention, name, project))
    queries = torch.randn(1, 3, QUERY_SIZE, dtype=torch.float64)
    answers, weights = attention(queries, attention.project(items))
    order = torch.tensor([3, 0, 4, 1, 2])
    moved_answers, moved_weights = attention(queries, attention.project(items.like(items.values[order])))
    torch.testing.assert_close(moved_answers, answers)
    torch.testing.assert_close(moved_weights, weights[:, :, order])


def test_nothing_is_given_to_positions_after_the_end() -> None:
    scores = torch.tensor([[[1e4, -1e4, 1e4]]])
    bias = torch.tensor([[[0.0, 0.0, float("-inf")]]])
    answers, weights = attend(scores, torch.tensor([[[2.0], [3.0], [5.0]]]), bias)
    assert weights.tolist() == [[[1.0, 0.0, 0.0]]]
    assert answers.tolist() == [[[2.0]]]


def test_gradients_reach_real_items_only() -> None:
    attention = make("general", False)
    items = ragged([2, 5], ITEM_SIZE)
    items.values.requires_grad_()
    queries = ragged([3, 1], QUERY_SIZE)
    answers, _ = attention.attend_ragged(queries, attention.project(items))
    answers.values[:3].sum().backward()
    assert items.values.grad is not None
    assert bool(items.values.grad.isfinite().all())
    assert bool(items.values.grad[:2].any()) and not bool(items.values.grad[2:].any())
