"""Copies between the host and a device for which neither waits: from and to page-locked memory.

Equal to `weft.search.loop.to_device` and `torch.Tensor.cpu`; tests/fast/searching/test_transfers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def goes_to_gpu(values: Sequence[int] | np.ndarray | Tensor, device: torch.device | str) -> bool:
    return torch.device(device).type == "cuda" and not (isinstance(values, Tensor) and not values.is_cpu)


def to_gpu(values: Sequence[int] | np.ndarray | Tensor, device: torch.device | str) -> Tensor:
    """`to_device` from page-locked memory. What was queued on the GPU before need not have finished."""
    if not isinstance(values, Tensor) and len(values):
        values = np.asarray(values)  # from which a tensor is made in a third of the time that a list takes
    return torch.as_tensor(values).pin_memory().to(device, non_blocking=True)


class HostCopies:
    """Copies of tensors on the host, which are complete once everything queued before them is."""

    def __init__(self, *tensors: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._copies = [self._copy(tensor) for tensor in tensors]
        if any(tensor.is_cuda for tensor in tensors):
            self._event = torch.cuda.Event()
            self._event.record()

    @staticmethod
    def _copy(tensor: Tensor) -> Tensor:
        if not tensor.is_cuda:
            return tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Wait for the copies. The arrays are not page-locked: such memory is scarce."""
        if self._event is None:
            return [copy.numpy() for copy in self._copies]
        self._event.synchronize()
        return [copy.numpy().copy() for copy in self._copies]
