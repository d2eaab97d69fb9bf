"""Splitting heads: equal to `split`, and gradients that are adjacent are not copied."""

from __future__ import annotations

import torch

from weft.fast.layers.adjacent_heads import _SplitHeads, are_adjacent, empty_gradients, split_heads


def packed() -> torch.Tensor:
    return torch.arange(3 * 5 * 2, dtype=torch.float32).view(3, 5, 2).requires_grad_()


def test_equals_split() -> None:
    packed_NHD = packed()
    for parts in (split_heads(packed_NHD, [1, 2, 2]), _SplitHeads.apply(packed_NHD, (1, 2, 2))):
        for part, expected in zip(parts, packed_NHD.split([1, 2, 2], 1), strict=True):
            assert torch.equal(part, expected)
        factors = [torch.randn(part.shape) for part in parts]
        [gradient] = torch.autograd.grad(parts, [packed_NHD], factors)
        assert torch.equal(gradient, torch.cat(factors, 1))


def test_adjacent_gradients_are_not_copied() -> None:
    packed_NHD = packed()
    parts = _SplitHeads.apply(packed_NHD, (1, 2, 2))
    assert are_adjacent(parts)
    gradients = empty_gradients(*parts)
    for number, gradient_NHD in enumerate(gradients):
        gradient_NHD.fill_(number)
    [gradient] = torch.autograd.grad(parts, [packed_NHD], gradients)
    assert gradient.data_ptr() == gradients[0].data_ptr()
    assert gradient[2, :, 1].tolist() == [0, 1, 1, 2, 2]


def test_what_is_not_adjacent() -> None:
    packed_NHD = packed().detach()
    queries, keys, values = packed_NHD.split([1, 2, 2], 1)
    assert not are_adjacent((queries, values, keys))
    assert not are_adjacent((queries, keys.clone(), values))
    assert not are_adjacent((keys, values))  # of a larger tensor
    gradients = empty_gradients(torch.zeros(4, 2, 2), *torch.zeros(3, 4, 2).split([2, 2], 1))
    assert [part.shape for part in gradients] == [(4, 2, 2), (3, 2, 2), (3, 2, 2)]
    assert are_adjacent(gradients[1:])
