"""The faster functions of `weft.fast.searching.top_k` against the plain ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.fast.cpu import compiled
from weft.fast.searching import top_k as fast
from weft.runtime.replaceable import plain_only
from weft.search.constraints import first_largest, log_sum_exp, top_k_extensions

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def values(rows: int, length: int, seed: int, spread: float = 1.0) -> Tensor:
    return spread * torch.randn(rows, length, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("floats", [2**18, 3 * 97, 5])
@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_literal_log_sum_exp(floats: int, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows together, three rows at a time, and one where not even a row fits."""
    monkeypatch.setattr(fast, "CACHE_FLOATS", floats)
    values_RV = values(11, 97, 2, spread)
    assert fast.is_float_on_cpu(values_RV) and not fast.is_float_on_cpu(values_RV.double())
    with plain_only():
        expected_R = log_sum_exp(values_RV)
    torch.testing.assert_close(fast.literal_log_sum_exp(values_RV), expected_R, rtol=1e-6, atol=1e-5)


def test_literal_log_sum_exp_beyond_the_range_of_floats() -> None:
    values_RV = values(4, 83, 3) + torch.tensor([[0.0], [90.0], [-110.0], [5000.0]])
    values_RV = torch.cat([values_RV, torch.full((1, 83), -math.inf)])
    torch.testing.assert_close(fast.literal_log_sum_exp(values_RV), values_RV.logsumexp(-1), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_log_sum_exp_by_softmax(device: str, spread: float) -> None:
    values_RV = values(11, 97, 2, spread).to(device)
    assert fast.is_float_on_gpu(values_RV) == (device == "cuda")
    torch.testing.assert_close(fast.log_sum_exp_by_softmax(values_RV), values_RV.logsumexp(-1), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("size", "length"), [(1, 1000), (3, 640), (5, 719), (2, 2049)])
def test_top_k_by_blocks(size: int, length: int, device: str) -> None:
    """Also of tokens after the last whole block, and of hypotheses that are empty."""
    scores_RV, totals_BK = values(3 * size, length, 4).to(device), values(3, size, 5).to(device)
    scores_RV[:, -1] += 3.0
    totals_BK[1, 1:] = -math.inf
    assert fast.has_many_blocks(scores_RV, totals_BK, 2 * size)
    assert not fast.has_many_blocks(scores_RV[:, :127], totals_BK, 2 * size)
    with plain_only():
        expected = top_k_extensions(scores_RV, totals_BK, 2 * size)
    for ours, plain in zip(fast.top_k_by_blocks(scores_RV, totals_BK, 2 * size), expected, strict=True):
        assert torch.equal(ours, plain)


@pytest.mark.parametrize("length", [1, 63, 256, 257, 500, 640])
def test_first_largest_by_numpy(length: int) -> None:
    """Of many equal values, too, and where nothing is allowed."""
    values_RV = torch.randint(0, 3, (23, length), generator=torch.Generator().manual_seed(length)).float()
    values_RV[1:12] = values(11, length, 6)
    values_RV[0] = -math.inf
    with plain_only():
        expected_R1 = first_largest(values_RV)
    assert torch.equal(fast.first_largest_by_numpy(values_RV), expected_R1)


@pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize(("size", "length"), [(1, 1000), (3, 7), (5, 719), (2, 2049)])
def test_compiled_functions(size: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None
    scores_RV, totals_BK = values(size, length, 4, 20.0), values(1, size, 5)
    totals_BK[0, 1:2] = -math.inf
    assert fast.is_native_top_k(scores_RV, totals_BK, 2 * size) and fast.is_native_log_sum_exp(scores_RV)
    with plain_only():
        expected = top_k_extensions(scores_RV, totals_BK, 2 * size)
    for ours, plain in zip(fast.top_k_by_blocks(scores_RV, totals_BK, 2 * size), expected, strict=True):
        assert torch.equal(ours, plain)
    beyond_RV = torch.cat([scores_RV, scores_RV + 5000.0, torch.full((1, length), -math.inf)])
    torch.testing.assert_close(fast.literal_log_sum_exp(beyond_RV), beyond_RV.logsumexp(-1), rtol=1e-6, atol=1e-5)
    assert not fast.is_native_top_k(scores_RV.double(), totals_BK, 1)
