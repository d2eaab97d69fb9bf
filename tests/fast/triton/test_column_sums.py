"""Sums over the rows of a matrix against PyTorch's."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 3), (37, 300), (5003, 1536), (50_021, 64), (50_021, 128)])
def test_equals_sum(shape: tuple[int, int], dtype: torch.dtype) -> None:
    from weft.fast.triton.column_sums import column_sums

    torch.manual_seed(1)
    matrix_ND = torch.randn(shape, device="cuda").to(dtype)
    sums_D = column_sums(matrix_ND)
    torch.testing.assert_close(sums_D, matrix_ND.double().sum(0).float(), rtol=1e-4, atol=1e-3)
    assert torch.equal(sums_D, column_sums(matrix_ND))
    torch.testing.assert_close(column_sums(matrix_ND[:, 1:]), sums_D[1:], rtol=1e-4, atol=1e-3)
