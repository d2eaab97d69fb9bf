"""Additive masks: what is added to attention scores before the softmax, 0 where attended and −∞ where not."""

from __future__ import annotations

import torch
from torch import Tensor


def additive_mask(masked: Tensor, dtype: torch.dtype) -> Tensor:
    """−∞ where ``masked`` is True, 0 elsewhere."""
    return torch.zeros_like(masked, dtype=dtype).masked_fill_(masked, float("-inf"))
