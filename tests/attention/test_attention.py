"""Attention against a loop over rows, queries and keys, without padding."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from weft.attention.attention import Attention, AttentionParts, attend
from weft.attention.scores import make_score
from weft.ragged import Ragged
from weft.recipe.choices import SCORES, resolve

QUERY_SIZE, SOURCE_SIZE, VALUE_SIZE = 5, 7, 3
SOURCES = [3, 1, 7, 2]
TARGETS = [2, 5, 1, 3]
CASES = [
    pytest.param(name, project, id=f"{name}{'-project' if project else ''}") for name in SCORES for project in (0, 1)
]


def make(name: str, project: bool, *, width: int = SOURCE_SIZE) -> Attention:
    torch.manual_seed(2)
    if resolve(SCORES, name).same_size and not project:
        width = QUERY_SIZE
    keys = values = None
    if project:
        keys, values = nn.Linear(width, QUERY_SIZE, bias=False), nn.Linear(width, VALUE_SIZE, bias=False)
    score = make_score(name, queries=QUERY_SIZE, keys=QUERY_SIZE if project else width, size=11, temperature=0.3)
    return Attention(score, AttentionParts(key_projection=keys, value_projection=values)).double()


def ragged(lengths: list[int], size: int) -> Ragged:
    layout = Ragged.of([[0] * length for length in lengths])
    return layout.like(torch.randn(sum(lengths), size, dtype=torch.float64))


def source_size(name: str, project: bool) -> int:
    return QUERY_SIZE if resolve(SCORES, name).same_size and not project else SOURCE_SIZE


def slow_attention(attention: Attention, query: Tensor, states: list[Tensor]) -> tuple[Tensor, list[float]]:
    """One query over a list of states: e_j, α = softmax(e), Σ α_j v_j."""
    scores = []
    for state in states:
        key = attention.key_projection(state)[None, None]
        scores.append(attention.score(query[None, None], attention.score.project_keys(key)).item())
    maximum = max(scores)
    total = sum(math.exp(score - maximum) for score in scores)
    weights = [math.exp(score - maximum) / total for score in scores]
    context = sum(weight * attention.value_projection(state) for weight, state in zip(weights, states, strict=True))
    assert isinstance(context, Tensor)
    return context, weights


@pytest.mark.parametrize(("name", "project"), CASES)
def test_over_unequal_lengths(name: str, project: bool) -> None:
    attention = make(name, project)
    source = ragged(SOURCES, source_size(name, project))
    queries = ragged(TARGETS, QUERY_SIZE)
    contexts, weights_BTS = attention.attend_ragged(queries, attention.project(source))
    assert weights_BTS.shape == (4, max(TARGETS), max(SOURCES))
    rows = zip(queries.split(), source.split(), contexts.split(), strict=True)
    for row, (row_queries, row_states, row_contexts) in enumerate(rows):
        for time, query in enumerate(row_queries):
            context, weights = slow_attention(attention, query, list(row_states))
            torch.testing.assert_close(row_contexts[time], context)
            padded = weights + [0.0] * (max(SOURCES) - len(weights))
            torch.testing.assert_close(weights_BTS[row, time], torch.tensor(padded, dtype=torch.float64))


@pytest.mark.parametrize(("name", "project"), CASES)
def test_over_the_history(name: str, project: bool) -> None:
    """s_t is a query over h_0 = 0 and h_1 … h_{t−1}."""
    attention = make(name, project, width=QUERY_SIZE)
    states = ragged(TARGETS, QUERY_SIZE)
    contexts, weights_BTS = attention.attend_to_history(states)
    for row, (row_states, row_contexts) in enumerate(zip(states.split(), contexts.split(), strict=True)):
        history = [torch.zeros(QUERY_SIZE, dtype=torch.float64)]
        for time, state in enumerate(row_states):
            context, weights = slow_attention(attention, state, history)
            torch.testing.assert_close(row_contexts[time], context)
            padded = weights + [0.0] * (max(TARGETS) - len(weights))
            torch.testing.assert_close(weights_BTS[row, time], torch.tensor(padded, dtype=torch.float64))
            history.append(state)


@pytest.mark.parametrize(("name", "project"), CASES)
def test_rows_of_equal_length_need_no_layout(name: str, project: bool) -> None:
    attention = make(name, project)
    source = ragged([3, 3], source_size(name, project))
    for ragged_part, padded_part in zip(
        attention.project(source), attention.project_padded(source.to_padded()), strict=True
    ):
        torch.testing.assert_close(ragged_part, padded_part, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "project"), CASES)
def test_weights_follow_their_states(name: str, project: bool) -> None:
    attention = make(name, project)
    source = ragged([5], source_size(name, project))
    queries = torch.randn(1, 3, QUERY_SIZE, dtype=torch.float64)
    contexts, weights = attention(queries, attention.project(source))
    order = torch.tensor([3, 0, 4, 1, 2])
    moved_contexts, moved_weights = attention(queries, attention.project(source.like(source.values[order])))
    torch.testing.assert_close(moved_contexts, contexts)
    torch.testing.assert_close(moved_weights, weights[:, :, order])


def test_masked_positions_have_no_weight() -> None:
    scores = torch.tensor([[[1e4, -1e4, 1e4]]])
    mask = torch.tensor([[[0.0, 0.0, float("-inf")]]])
    contexts, weights = attend(scores, torch.tensor([[[2.0], [3.0], [5.0]]]), mask)
    assert weights.tolist() == [[[1.0, 0.0, 0.0]]]
    assert contexts.tolist() == [[[2.0]]]


def test_gradients_of_attended_states_only() -> None:
    attention = make("general", False)
    source = ragged([2, 5], SOURCE_SIZE)
    source.values.requires_grad_()
    queries = ragged([3, 1], QUERY_SIZE)
    contexts, _ = attention.attend_ragged(queries, attention.project(source))
    contexts.values[:3].sum().backward()
    assert source.values.grad is not None
    assert bool(source.values.grad.isfinite().all())
    assert bool(source.values.grad[:2].any()) and not bool(source.values.grad[2:].any())
