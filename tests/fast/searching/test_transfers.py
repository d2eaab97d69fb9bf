"""Copies between the host and a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.fast.searching.transfers import HostCopies, goes_to_gpu
from weft.search.loop import to_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_values_arrive(device: str) -> None:
    for values in ([3, 1, 2], np.array([3, 1, 2]), torch.tensor([3, 1, 2])):
        assert goes_to_gpu(values, device) == (device == "cuda")
        found = to_device(values, device)
        assert found.device.type == device and found.dtype == torch.int64 and found.tolist() == [3, 1, 2]
        assert to_device(found, device).tolist() == [3, 1, 2]  # of values that are there
        assert not goes_to_gpu(found, device)
        floats = found / 2
        integers, halves = HostCopies(found, floats).arrays()
        floats.zero_()
        assert integers.tolist() == [3, 1, 2]
        assert halves.tolist() == ([1.5, 0.5, 1.0] if device == "cuda" else [0.0] * 3)  # a CPU copies nothing
