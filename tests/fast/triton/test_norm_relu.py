"""The kernel of max(0, LayerNorm(x)) against PyTorch's operations, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (997, 48), (20011, 64), (331, 513)])
def test_the_plain_operations(rows: int, width: int, dtype: torch.dtype) -> None:
    from weft.fast.triton.norm_relu import norm_relu

    generator = torch.Generator("cuda").manual_seed(rows + width)
    x_ND, upstream_ND = (torch.randn(rows, width, generator=generator, device="cuda").to(dtype) for _ in range(2))
    weight_D, bias_D = (torch.randn(width, generator=generator, device="cuda") for _ in range(2))
    results = []
    for is_kernel in (False, True):
        x, weight, bias = (tensor.clone().requires_grad_() for tensor in (x_ND, weight_D, bias_D))
        if is_kernel:
            y = norm_relu(x, weight, bias, 1e-5)
        else:
            y = functional.layer_norm(x.float(), (width,), weight, bias, 1e-5).relu()
        y.backward(upstream_ND.to(y.dtype))
        results.append([y.float(), *(tensor.grad.float() for tensor in (x, weight, bias))])  # type: ignore[union-attr]
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    for plain, kernel in zip(*results, strict=True):
        torch.testing.assert_close(kernel, plain, rtol=tolerance, atol=tolerance * max(1.0, plain.abs().max().item()))


def test_no_rows() -> None:
    from weft.fast.triton.norm_relu import norm_relu

    assert norm_relu(torch.zeros(0, 16, device="cuda"), *torch.ones(2, 16, device="cuda"), 1e-5).shape == (0, 16)
