"""Linear layers and feed-forward networks in half precision against double precision, with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.fast.layers.layer_kernels import linear, relu_feed_forward

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def relative_error(ours: Tensor, exact: Tensor) -> float:
    return float((ours.double() - exact.double()).norm() / exact.double().norm())


def test_linear() -> None:
    torch.manual_seed(1)
    module = nn.Linear(48, 136, device="cuda")
    inputs_ND = torch.randn(1003, 48, device="cuda").bfloat16().requires_grad_()
    outputs_NG = linear(module, inputs_ND)
    gradient_NG = torch.randn_like(outputs_NG)
    ours = [outputs_NG, *torch.autograd.grad(outputs_NG, [inputs_ND, *module.parameters()], gradient_NG)]
    module, exact_ND = module.double(), inputs_ND.detach().double().requires_grad_()
    exact_NG = module(exact_ND)
    exact = [exact_NG, *torch.autograd.grad(exact_NG, [exact_ND, *module.parameters()], gradient_NG.double())]
    assert [part.dtype for part in ours] == [torch.bfloat16] * 2 + [torch.float32] * 2
    for part, exact_part in zip(ours, exact, strict=True):
        assert relative_error(part.detach(), exact_part.detach()) < 1e-2


def test_feed_forward() -> None:
    """Of weights that are not rounded again: else values near zero would be on the other side of the ReLU."""
    torch.manual_seed(1)
    first, second = (nn.Linear(*sizes, device="cuda").bfloat16().float() for sizes in ((64, 200), (200, 64)))
    stream_ND = torch.randn(1003, 64, device="cuda").bfloat16().requires_grad_()
    parameters = [*first.parameters(), *second.parameters()]
    outputs_ND = relu_feed_forward(first, second, stream_ND)
    gradient_ND = torch.randn_like(outputs_ND)
    ours = [outputs_ND, *torch.autograd.grad(outputs_ND, [stream_ND, *parameters], gradient_ND)]
    first, second, exact_ND = first.double(), second.double(), stream_ND.detach().double().requires_grad_()
    result_ND = second(functional.relu(first(exact_ND)))
    parameters = [*first.parameters(), *second.parameters()]
    exact = [result_ND, *torch.autograd.grad(result_ND, [exact_ND, *parameters], gradient_ND.double())]
    for part, exact_part in zip(ours, exact, strict=True):
        assert relative_error(part.detach(), exact_part.detach()) < 1e-2
