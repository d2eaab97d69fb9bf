"""Top-k and log-sum-exp: against PyTorch's own, slower functions."""

from __future__ import annotations

import math

import pytest
import torch

from fixtures.search_requests import request
from weft.search.constraints import first_largest, log_sum_exp, top_k, top_k_constrained, top_k_extensions
from weft.search.loop import SearchState


def literal(row: list[float]) -> float:
    largest = max(row)
    return largest + math.log(sum(math.exp(value - largest) for value in row))


@pytest.mark.parametrize("shape", [(1, 1), (7, 11), (5, 64), (13, 499)])
@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
def test_log_sum_exp_is_the_literal_one(shape: tuple[int, int], spread: float) -> None:
    torch.manual_seed(1)
    logits_RV = spread * torch.randn(shape)
    expected_R = torch.tensor([literal(row) for row in logits_RV.double().tolist()])
    torch.testing.assert_close(log_sum_exp(logits_RV), expected_R, rtol=1e-6, atol=1e-5)


def test_log_sum_exp_beyond_the_range_of_floats() -> None:
    """Rows shifted far up or down, next to rows that are not; nothing allowed; everything impossible but one."""
    torch.manual_seed(3)
    shifts_R1 = torch.tensor([[0.0], [70.0], [-70.0], [90.0], [-110.0], [5000.0], [-5000.0]])
    logits_RV = torch.randn(7, 83) + shifts_R1
    expected_R = torch.tensor([literal(row) for row in logits_RV.double().tolist()])
    torch.testing.assert_close(log_sum_exp(logits_RV), expected_R, rtol=1e-6, atol=1e-5)
    nothing_RV = torch.full((2, 83), -math.inf)
    nothing_RV[1, 5] = 2.5
    assert log_sum_exp(nothing_RV).tolist() == [-math.inf, 2.5]
    assert log_sum_exp(torch.tensor([[math.nan, 1.0]])).isnan().all()
    assert log_sum_exp(logits_RV[:0]).shape == (0,)


@pytest.mark.parametrize("length", [3, 64, 67, 1000])
def test_top_k_are_the_largest(length: int) -> None:
    values_RV = torch.randn(5, length, generator=torch.Generator().manual_seed(4))
    values_RC, indices_RC = top_k(values_RV, 4)
    assert torch.equal(values_RC, values_RV.topk(min(4, length)).values)
    assert torch.equal(values_RV.gather(1, indices_RC), values_RC)


@pytest.mark.parametrize("length", [7, 67, 1000])
@pytest.mark.parametrize("shift", [0.0, 300.0, -300.0])
def test_constrained_top_k_is_that_of_a_log_softmax(length: int, shift: float) -> None:
    """Also where the most likely token, which holds nearly everything, is forbidden: an early end token."""
    torch.manual_seed(5)
    sentences, size, end = 3, 5, 2
    logits_RV = 2 * torch.randn(sentences * size, length) + shift
    logits_RV[:, end] += 60
    totals_BK = -torch.rand(sentences, size)
    state = SearchState.start(request((), [9] * sentences, min_lengths=[1] * sentences), (), rows=size)
    scores_RV = logits_RV.log_softmax(-1)
    scores_RV[:, end] = -math.inf
    expected = top_k_extensions(scores_RV, totals_BK, 2 * size)
    plain_BC = (totals_BK.view(-1, 1) + scores_RV).view(sentences, -1).topk(2 * size).values
    found = top_k_constrained(logits_RV.clone(), totals_BK, 2 * size, state, (), end)
    torch.testing.assert_close(found.scores_BC, plain_BC, rtol=1e-6, atol=1e-4)
    assert torch.equal(found.tokens_BC, expected.tokens_BC)
    assert torch.equal(found.parents_BC, expected.parents_BC)


@pytest.mark.parametrize("length", [1, 63, 256, 257, 500, 640])
def test_first_largest_is_argmax(length: int) -> None:
    """Of many equal values, too, and where nothing is allowed."""
    generator = torch.Generator().manual_seed(length)
    values_RV = torch.randint(0, 3, (23, length), generator=generator).float()
    values_RV[1:12] = torch.randn(11, length, generator=generator)
    values_RV[0] = -math.inf
    values_RV[2, -1] = 9.0
    assert torch.equal(first_largest(values_RV), values_RV.argmax(-1, keepdim=True))
