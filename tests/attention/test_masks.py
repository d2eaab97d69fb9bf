"""Additive masks."""

from __future__ import annotations

import math

import torch

from weft.attention.masks import additive_mask


def test_additive_mask() -> None:
    mask = additive_mask(torch.tensor([[True, False], [False, False]]), torch.float64)
    assert mask.dtype == torch.float64 and mask.tolist() == [[-math.inf, 0.0], [0.0, 0.0]]
