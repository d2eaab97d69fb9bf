"""Automatic mixed precision on whatever device a tensor is: what `torch.autocast` asks for by the name of a device."""

from __future__ import annotations

import torch
from torch import Tensor


def autocast_dtype(values: Tensor) -> torch.dtype:
    """The type in which autocast multiplies such values; without autocast, their own."""
    device_type = values.device.type
    return torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else values.dtype


def without_autocast(values: Tensor) -> torch.autocast:
    """A block in which these values, and others on their device, are multiplied in their own type."""
    return torch.autocast(values.device.type, enabled=False)
