"""Hard attention of first order by one kernel against the plain recursion, with their gradients."""

from __future__ import annotations

import pytest
import torch

from weft.attention.hard_alignment import AlignmentSizes, First
from weft.recipe import AttentionSettings
from weft.runtime.replaceable import plain_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("positions", [1, 2, 6, 33, 70])
@pytest.mark.parametrize("times", [2, 5])
def test_equals_the_plain_recursion(positions: int, times: int) -> None:
    from weft.fast.layers.hard_alignment import first_order_by_kernel, has_kernel

    torch.manual_seed(positions)
    alignment = First(AttentionSettings(hard="first"), AlignmentSizes(queries=4, states=4)).cuda()
    lengths = torch.tensor([positions, max(positions // 2, 1), 1])
    masked_BS = (torch.arange(positions) >= lengths[:, None]).cuda()
    keys_BSD = alignment.project(torch.randn(3, positions, 4, device="cuda"))
    transitions = alignment.transitions(torch.randn(3, times, 4, device="cuda"), keys_BSD, masked_BS)
    inputs = [transitions[0].detach().requires_grad_(), torch.randn(3, times, positions, device="cuda").mul(3)]
    inputs[1].requires_grad_()
    probe = torch.randn(3, times, positions, device="cuda")
    assert has_kernel(alignment, (inputs[0],), inputs[1])
    results = []
    for exact in (False, True):
        parts = [part.detach().double().requires_grad_() if exact else part for part in inputs]
        forward = plain_of(type(alignment).forward) if exact else first_order_by_kernel
        weights_BTS = forward(alignment, (parts[0],), parts[1])
        possible_BTS = weights_BTS.masked_fill(weights_BTS == float("-inf"), 0.0)
        results.append([weights_BTS, *torch.autograd.grad((possible_BTS * probe).sum(), parts)])
    for ours, exact_part in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), exact_part, rtol=1e-4, atol=1e-5)
