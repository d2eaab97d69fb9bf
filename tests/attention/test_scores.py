"""Every score against its equation, written out for one query and one key with scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from weft.attention.scores import Score, make_score
from weft.errors import RecipeError
from weft.recipe.choices import SCORES, resolve

ROWS, QUERIES, KEYS, QUERY_SIZE, KEY_SIZE, SIZE = 2, 3, 5, 7, 11, 13
TEMPERATURE = 0.3
Vector = Sequence[float]


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def times(matrix: Sequence[Vector], vector: Vector) -> list[float]:
    return [dot(row, vector) for row in matrix]


def general(score: Score, q: Vector, k: Vector) -> float:
    W = score.weight_QK.tolist()
    return sum(q[i] * W[i][j] * k[j] for i in range(len(q)) for j in range(len(k)))


def additive(score: Score, q: Vector, k: Vector) -> float:
    W1, b, W2, v = (
        tensor.tolist()
        for tensor in (
            score.key_projection.weight,
            score.key_projection.bias,
            score.query_projection.weight,
            score.vector,
        )
    )
    parts = zip(times(W1, k), times(W2, q), b, strict=True)
    return dot(v, [math.tanh(of_key + of_query + bias) for of_key, of_query, bias in parts])


def concat(score: Score, q: Vector, k: Vector) -> float:
    return dot(score.vector.tolist(), [math.tanh(x) for x in times(score.weight.tolist(), [*q, *k])])


def cosine(score: Score, q: Vector, k: Vector) -> float:
    return dot(q, k) / math.sqrt(dot(q, q)) / math.sqrt(dot(k, k)) / TEMPERATURE


SLOW: dict[str, Callable[[Score, Vector, Vector], float]] = {
    "dot": lambda score, q, k: dot(q, k),
    "scaled_dot": lambda score, q, k: dot(q, k) / math.sqrt(len(q)),
    "parameter_free": lambda score, q, k: dot(q, k),
    "general": general,
    "scaled_general": lambda score, q, k: general(score, q, k) / math.sqrt(len(k)),
    "additive": additive,
    "concat": concat,
    "cosine": cosine,
}


def make(name: str) -> tuple[Score, torch.Tensor, torch.Tensor]:
    """A score in double precision, queries and keys."""
    torch.manual_seed(1)
    key_size = QUERY_SIZE if resolve(SCORES, name).same_size else KEY_SIZE
    score = make_score(name, queries=QUERY_SIZE, keys=key_size, size=SIZE, temperature=TEMPERATURE).double()
    queries = torch.randn(ROWS, QUERIES, QUERY_SIZE, dtype=torch.float64)
    return score, queries, torch.randn(ROWS, KEYS, key_size, dtype=torch.float64)


def test_every_score_has_an_equation() -> None:
    assert set(SLOW) == set(SCORES)


@pytest.mark.parametrize("name", SCORES)
def test_equation(name: str) -> None:
    score, queries, keys = make(name)
    found = score(queries, score.project_keys(keys))
    expected = [[[SLOW[name](score, q, k) for k in keys[b].tolist()] for q in queries[b].tolist()] for b in range(ROWS)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_gradients(name: str) -> None:
    score, queries, keys = make(name)
    parameters = tuple(score.parameters())
    torch.autograd.gradcheck(
        lambda q, k, *_: score(q, score.project_keys(k)), (queries.requires_grad_(), keys.requires_grad_(), *parameters)
    )


@pytest.mark.parametrize(
    ("name", "count"),
    {
        "dot": 0,
        "scaled_dot": 0,
        "parameter_free": 0,
        "cosine": 0,
        "general": QUERY_SIZE * KEY_SIZE,
        "scaled_general": QUERY_SIZE * KEY_SIZE,
        "additive": SIZE * (KEY_SIZE + 1) + SIZE * QUERY_SIZE + SIZE,
        "concat": SIZE * (QUERY_SIZE + KEY_SIZE) + SIZE,
    }.items(),
)
def test_parameters(name: str, count: int) -> None:
    assert sum(parameter.numel() for parameter in make(name)[0].parameters()) == count


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_cosine_is_bound_by_the_temperature_and_blind_to_length(temperature: float) -> None:
    _, queries, keys = make("cosine")
    score = make_score("cosine", queries=QUERY_SIZE, keys=QUERY_SIZE, size=SIZE, temperature=temperature)
    found = score(queries, score.project_keys(keys))
    assert float(found.abs().max()) <= 1 / temperature
    torch.testing.assert_close(score(queries * 17, score.project_keys(keys * 0.01)), found)
    itself = score(queries, score.project_keys(queries)).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(itself, torch.full_like(itself, 1 / temperature))


def test_unknown_score() -> None:
    with pytest.raises(RecipeError, match=r"^model.attention.score: unknown score 'generl'; did you mean 'general'\?$"):
        make_score("generl", queries=3, keys=3, size=3)


@pytest.mark.parametrize("name", [name for name in SCORES if resolve(SCORES, name).same_size])
def test_sizes_that_must_agree(name: str) -> None:
    with pytest.raises(RecipeError, match=f"'{name}' needs queries and keys of one size, but they have 3 and 5; use"):
        make_score(name, queries=3, keys=5, size=7)
