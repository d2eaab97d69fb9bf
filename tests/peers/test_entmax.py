"""The normalizers give what the ``entmax`` package of their authors gives."""

from __future__ import annotations

import pytest
import torch

from weft.attention.normalizers import make_normalizer

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
