"""The normalizers, and the loss of sparse outputs, give what the ``entmax`` package of their authors gives."""

from __future__ import annotations

import pytest
import torch

from weft.attention.normalizers import make_normalizer
from weft.training.loss import entmax15_loss

entmax = pytest.importorskip("entmax")


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("width", [1, 2, 17, 300])
def test_the_same_weights_and_gradients(name: str, width: int) -> None:
    torch.manual_seed(width)
    scores_RS = (torch.randn(30, width, dtype=torch.float64) * 3).requires_grad_()
    probe_RS = torch.randn(30, width, dtype=torch.float64)
    ours_RS, theirs_RS = make_normalizer(name)(scores_RS), getattr(entmax, name)(scores_RS, dim=-1)
    torch.testing.assert_close(ours_RS, theirs_RS, atol=1e-12, rtol=0)
    gradients = [torch.autograd.grad((weights * probe_RS).sum(), scores_RS)[0] for weights in (ours_RS, theirs_RS)]
    torch.testing.assert_close(*gradients, atol=1e-10, rtol=0)


@pytest.mark.parametrize("width", [2, 17, 300])
def test_the_same_loss(width: int) -> None:
    torch.manual_seed(width)
    scores_NV = (torch.randn(30, width, dtype=torch.float64) * 3).requires_grad_()
    targets_N = torch.randint(width, (30,))
    ours, theirs = entmax15_loss(scores_NV, targets_N).smoothed, entmax.entmax15_loss(scores_NV, targets_N).sum()
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)
    gradients = [torch.autograd.grad(loss, scores_NV)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=1e-10, rtol=0)
