"""Dropout by a seed: its share, its mean and its repetition."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("width", [13, 512, 3000])
def test_a_seed_gives_a_mask(width: int) -> None:
    from weft.fast.triton.dropout import draw_dropout, drop

    ones_ND = torch.ones(1009, width, device="cuda")
    masks = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        dropout = draw_dropout(0.25, ones_ND.device)
        assert dropout is not None
        masks.append(drop(ones_ND, dropout))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])
    assert masks[0].unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert masks[0].mean().item() == pytest.approx(1.0, abs=0.03)
    assert draw_dropout(0.0, ones_ND.device) is None
