"""A linear map with its norm, activation and residual in one kernel, against PyTorch's functions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("rows", [1, 5, 16])
@pytest.mark.parametrize(("width", "columns"), [(64, 48), (256, 768), (2048, 512), (100, 37)])
@pytest.mark.parametrize("norm", [None, nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("relu", [False, True])
def test_equals_pytorch(
    rows: int, width: int, columns: int, norm: type[nn.LayerNorm] | type[nn.RMSNorm] | None, relu: bool
) -> None:
    from weft.fast.triton.small_linear import plain_small_linear, small_linear

    torch.manual_seed(rows)
    made = None if norm is None else norm(width, eps=1e-5)
    for parameter in () if made is None else made.parameters():
        nn.init.normal_(parameter, 1.0, 0.3)
    linear, x_RD = nn.Linear(width, columns), torch.randn(rows, width) + 0.5
    residual_RE = None if relu else torch.randn(rows, columns)
    options = {"norm": made, "relu": relu}
    with torch.no_grad():
        expected = plain_small_linear(x_RD, linear, residual_RE=residual_RE, **options)
        for module in (linear, *([] if made is None else [made])):
            module.to("cuda", torch.bfloat16)
        there = None if residual_RE is None else residual_RE.cuda().bfloat16()
        found = small_linear(x_RD.cuda().bfloat16(), linear, residual_RE=there, **options)
    error = (found.float().cpu() - expected).norm() / expected.norm()
    assert found.shape == (rows, columns) and float(error) < 1e-2
