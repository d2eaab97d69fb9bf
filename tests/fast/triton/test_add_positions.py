"""Embeddings, positions and dropout in one kernel against the equation, with their gradients."""

from __future__ import annotations

import pytest
import torch

from weft.fast.layers.layer_kernels import add_positions, has_position_kernel

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("width", [13, 512, 1200])
def test_equals_the_equation(width: int, probability: float) -> None:
    """With the same mask, and as exact as the rounding of the result."""
    from weft.fast.triton.dropout import draw_dropout, drop

    torch.manual_seed(1)
    embedded_ND, table_PD = torch.randn(517, width, device="cuda"), torch.randn(61, width, device="cuda")
    positions_N = torch.randint(0, 61, (517,), device="cuda")
    embedded_ND.requires_grad_()
    torch.manual_seed(3)
    with torch.autocast("cuda", torch.bfloat16):
        assert has_position_kernel(embedded_ND)
        stream_ND = add_positions(embedded_ND, 2.5, table_PD, positions_N, probability)
    gradient_ND = torch.randn_like(stream_ND)
    [ours_ND] = torch.autograd.grad(stream_ND, [embedded_ND], gradient_ND)
    torch.manual_seed(3)
    dropout = draw_dropout(probability, embedded_ND.device)
    mask_ND = torch.ones_like(embedded_ND) if dropout is None else drop(torch.ones_like(embedded_ND), dropout)
    exact_ND = (2.5 * embedded_ND.double() + table_PD[positions_N].double()) * mask_ND
    assert stream_ND.dtype == torch.bfloat16 and ours_ND.dtype == torch.float32
    torch.testing.assert_close(stream_ND.double(), exact_ND, rtol=2**-8, atol=1e-5)
    torch.testing.assert_close(ours_ND.double(), 2.5 * gradient_ND.double() * mask_ND, rtol=1e-6, atol=1e-6)


def test_only_where_layers_are_trained_in_half_precision() -> None:
    embedded_ND = torch.randn(3, 8, device="cuda")
    assert not has_position_kernel(embedded_ND)
    with torch.autocast("cuda", torch.bfloat16):
        assert has_position_kernel(embedded_ND)
        with torch.no_grad():
            assert not has_position_kernel(embedded_ND)
