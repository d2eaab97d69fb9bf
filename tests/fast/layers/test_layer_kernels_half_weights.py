"""Weights that are converted together are those that are converted one by one."""

from __future__ import annotations

import torch

from weft.fast.layers.layer_kernels import half_weights, to_half


def test_converted_once_inside() -> None:
    torch.manual_seed(1)
    first, second, other = (torch.randn(size, requires_grad=True) for size in ((3, 5), (7,), (2, 2)))
    with half_weights([first, second], torch.bfloat16):
        for weight in (first, second, other):
            assert torch.equal(to_half(weight, torch.bfloat16), weight.to(torch.bfloat16))
        assert to_half(first, torch.bfloat16) is to_half(first, torch.bfloat16)
        assert to_half(other, torch.bfloat16) is not to_half(other, torch.bfloat16)
        assert to_half(first, torch.float16).dtype == torch.float16
        assert not to_half(first, torch.bfloat16).requires_grad
    with torch.no_grad():
        first += 1.0
    assert torch.equal(to_half(first, torch.bfloat16), first.to(torch.bfloat16))
    with half_weights([], torch.bfloat16):
        assert to_half(first, torch.bfloat16).dtype == torch.bfloat16
