"""Dropout, residual connection and norm in one kernel against PyTorch's, with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.fast.layers.layer_kernels import dropout_add, residual_norm

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def relative_error(ours: Tensor, exact: Tensor) -> float:
    return float((ours.double() - exact.double()).norm() / exact.double().norm())


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("width", [13, 64, 512, 1200])
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_equals_dropout_residual_and_norm(
    kind: type[nn.LayerNorm] | type[nn.RMSNorm], width: int, probability: float
) -> None:
    """Half precision against double precision with the same mask; of two uses the gradients are added."""
    from weft.fast.triton.dropout import draw_dropout, drop

    torch.manual_seed(1)
    norm = kind(width, eps=1e-5, device="cuda")
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    stream_ND, output_ND, *gradients = (torch.randn(517, width, device="cuda").bfloat16() for _ in range(4))
    inputs = [part.requires_grad_() for part in (stream_ND, output_ND)]
    torch.manual_seed(3)
    ours_ND, same_ND = residual_norm(norm, *inputs, probability)
    assert torch.equal(ours_ND, same_ND)
    ours = [ours_ND, *torch.autograd.grad([ours_ND, same_ND], [*inputs, *norm.parameters()], gradients)]
    torch.manual_seed(3)
    dropout = draw_dropout(probability, stream_ND.device)
    ones_ND = torch.ones_like(stream_ND.detach(), dtype=torch.float32)
    mask_ND = ones_ND if dropout is None else drop(ones_ND, dropout)
    exact = [part.detach().double().requires_grad_() for part in inputs]
    norm = norm.double()
    exact_ND = norm(exact[0] + exact[1] * mask_ND)
    gradient_ND = gradients[0].double() + gradients[1].double()
    expected = [exact_ND, *torch.autograd.grad(exact_ND, [*exact, *norm.parameters()], gradient_ND)]
    for part, exact_part in zip(ours, expected, strict=True):
        assert relative_error(part.detach(), exact_part.detach()) < 1e-2


def test_the_norm_alone() -> None:
    """Of which only one result is used."""
    torch.manual_seed(1)
    norm = nn.LayerNorm(48, device="cuda")
    stream_ND = torch.randn(17, 48, device="cuda").bfloat16().requires_grad_()
    plain_ND = norm(stream_ND.float())
    [plain] = torch.autograd.grad(plain_ND.pow(3).sum(), [stream_ND])
    for use in (0, 1):
        ours_ND = residual_norm(norm, stream_ND)[use]
        assert relative_error(ours_ND.detach(), plain_ND.detach()) < 1e-2
        [ours] = torch.autograd.grad(ours_ND.float().pow(3).sum(), [stream_ND])
        assert relative_error(ours, plain) < 2e-2


def test_dropout_without_a_norm() -> None:
    """The mask of the backward pass is that of the forward pass; the state of the generator determines it."""
    stream_ND, output_ND = (torch.randn(400, 72, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        added_ND = dropout_add(stream_ND, output_ND, 0.25)
        results.append((added_ND, *torch.autograd.grad(added_ND.sum(), [stream_ND, output_ND])))
    assert torch.equal(results[0][0], results[1][0]) and not torch.equal(results[0][0], results[2][0])
    added_ND, of_stream, of_output = results[0]
    assert (of_stream == 1).all()
    kept = of_output != 0
    assert 0.73 < kept.float().mean() < 0.77
    assert torch.equal(added_ND[~kept], stream_ND[~kept])
    torch.testing.assert_close(
        of_output[kept].float(), torch.full_like(of_output[kept].float(), 4 / 3), rtol=1e-2, atol=0
    )
