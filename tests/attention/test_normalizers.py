"""Every normalizer against its equation: the threshold by bisection, optimality, and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from weft.attention.normalizers import entmax15, make_normalizer, softmax, sparsemax
from weft.recipe.choices import NORMALIZERS

SPARSE = ("sparsemax", "entmax15")
every_normalizer = pytest.mark.parametrize("name", NORMALIZERS)
every_sparse_normalizer = pytest.mark.parametrize("name", SPARSE)


def bisected(scores: list[float], weight: Callable[[float, float], float]) -> list[float]:
    """The weights at the threshold at which they sum to one; they fall as the threshold rises."""
    low, high = min(scores) - 10, max(scores) + 10
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(weight(score, middle) for score in scores)
        low, high = (middle, high) if total > 1 else (low, middle)
    return [weight(score, low) for score in scores]


ORACLES: dict[str, Callable[[list[float]], list[float]]] = {
    "softmax": lambda scores: [math.exp(score) / sum(map(math.exp, scores)) for score in scores],
    "sparsemax": lambda scores: bisected(scores, lambda score, threshold: max(score - threshold, 0.0)),
    "entmax15": lambda scores: bisected(scores, lambda score, threshold: max(score / 2 - threshold, 0.0) ** 2),
}
SCORES = st.lists(st.floats(-6, 6), min_size=1, max_size=12)


@every_normalizer
@given(scores=SCORES)
def test_equation(name: str, scores: list[float]) -> None:
    weights = make_normalizer(name)(torch.tensor(scores, dtype=torch.float64))
    torch.testing.assert_close(weights, torch.tensor(ORACLES[name](scores), dtype=torch.float64), atol=1e-9, rtol=1e-9)


@every_normalizer
@given(scores=SCORES, shift=st.floats(-100, 100))
def test_weights_are_a_distribution_that_a_shift_does_not_change(name: str, scores: list[float], shift: float) -> None:
    normalize = make_normalizer(name)
    values = torch.tensor(scores, dtype=torch.float64)
    weights = normalize(values)
    assert (weights >= 0).all() and weights.sum().item() == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(normalize(values + shift), weights, atol=1e-9, rtol=0)


def test_sparsemax_is_the_nearest_distribution() -> None:
    """argmin ‖p − z‖²: no other distribution is nearer to the scores."""
    torch.manual_seed(1)
    scores_RS = torch.randn(20, 6, dtype=torch.float64) * 2
    nearest_R = (sparsemax(scores_RS) - scores_RS).square().sum(-1)
    others_ORS = torch.distributions.Dirichlet(torch.full((6,), 0.5, dtype=torch.float64)).sample((500, 20))
    assert ((others_ORS - scores_RS).square().sum(-1) >= nearest_R).all()


def test_entmax15_maximizes_its_objective() -> None:
    """argmax pᵀz + H_1.5(p), H_1.5(p) = (4/3) Σ (p − p^1.5)."""

    def objective(weights: Tensor, scores: Tensor) -> Tensor:
        return (weights * scores + 4 / 3 * (weights - weights**1.5)).sum(-1)

    torch.manual_seed(1)
    scores_RS = torch.randn(20, 6, dtype=torch.float64) * 2
    best_R = objective(entmax15(scores_RS), scores_RS)
    others_ORS = torch.distributions.Dirichlet(torch.full((6,), 0.5, dtype=torch.float64)).sample((500, 20))
    assert (objective(others_ORS, scores_RS) <= best_R).all()


@every_normalizer
def test_gradient(name: str) -> None:
    torch.manual_seed(2)
    scores_RS = (torch.randn(4, 7, dtype=torch.float64) * 1.5).requires_grad_()
    assert torch.autograd.gradcheck(make_normalizer(name), (scores_RS,))


@every_normalizer
def test_masked_positions_have_no_weight_and_no_gradient(name: str) -> None:
    scores_S = torch.tensor([0.3, -math.inf, 0.1, -math.inf], requires_grad=True)
    weights_S = make_normalizer(name)(scores_S)
    [gradient_S] = torch.autograd.grad(weights_S[0], scores_S)
    assert weights_S[1] == weights_S[3] == 0 and weights_S.sum().item() == pytest.approx(1)
    assert gradient_S.isfinite().all() and gradient_S[1] == gradient_S[3] == 0


@every_sparse_normalizer
def test_small_scores_get_no_weight(name: str) -> None:
    scores_S = torch.tensor([4.0, 3.9, 0.0, -1.0])
    assert (make_normalizer(name)(scores_S) > 0).tolist() == [True, True, False, False]
    assert (softmax(scores_S) > 0).all()


@every_sparse_normalizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    scores_RS = (torch.randn(5, 40) * 2).to(dtype)
    normalize = make_normalizer(name)
    weights_RS = normalize(scores_RS)
    assert weights_RS.dtype == dtype
    torch.testing.assert_close(weights_RS, normalize(scores_RS.float()).to(dtype), atol=0, rtol=0)
