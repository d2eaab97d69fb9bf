"""Dropout on a CPU draws sixteen bits a value; the rest of the layers is tested in test_layers.py."""

from __future__ import annotations

import pytest
import torch

from weft.models.layers import dropout


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 1009), (7,)])
def test_the_share_and_the_mean(share: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    values = torch.full(shape, 3.0, requires_grad=True)
    found = dropout(values, share, training=True)
    for value in found.unique().tolist():
        assert value == 0.0 or value == pytest.approx(3 / (1 - share), rel=1e-6)
    if values.numel() > 1000:
        assert float((found == 0).float().mean()) == pytest.approx(share, abs=0.003)
        assert float(found.detach().mean()) == pytest.approx(3.0, rel=0.02)
    found.sum().backward()
    torch.testing.assert_close(values.grad, found.detach() / 3)


def test_nothing_is_dropped_when_not_training() -> None:
    values = torch.randn(5)
    assert dropout(values, 0.5, training=False) is values


def test_neighbors_are_dropped_independently() -> None:
    torch.manual_seed(2)
    kept = dropout(torch.ones(40_000), 0.5, training=True).view(-1, 4) > 0
    patterns = (kept * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16)
    assert patterns.min() > 500 and patterns.max() < 750, "16 equally likely patterns of 10,000 draws"
