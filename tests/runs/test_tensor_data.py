"""Reading tensors: a thread that reads them can be stopped."""

from __future__ import annotations

from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event

import pytest
import torch

from weft.runs import tensor_data
from weft.runs.tensor_data import TensorData
from weft.runs.weights import read_tensors, write_tensors


class StopsLater(Event):
    """Set when it is looked at for the third time."""

    looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 2


TENSORS = {"a": torch.arange(300.0), "b": torch.zeros(0), "c": torch.ones(7), "d": torch.rand(5, 33)}


def test_reading_stops_between_two_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_data, "BLOCK_BYTES", 64)
    write_tensors(tmp_path / "x", TENSORS)
    stop = StopsLater()
    with pytest.raises(CancelledError):
        TensorData(tmp_path / "x").read(stop)
    assert stop.looks == 3


@pytest.mark.parametrize("size", [64, 1024, 1 << 20])
def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Tensors are the same in blocks of any size: aligned, vectors apart from the block, and none overlaps another."""
    monkeypatch.setattr(tensor_data, "BLOCK_BYTES", size)
    monkeypatch.setattr(tensor_data, "COPIED_BYTES", 1000)
    tensors = {**TENSORS, "e": torch.rand(17, 16), "f": torch.arange(13), "g": torch.rand(31, 8)}
    write_tensors(tmp_path / "x", tensors)
    read = read_tensors(tmp_path / "x").tensors
    torch.testing.assert_close(read, tensors, rtol=0, atol=0)
    for tensor in read.values():
        assert tensor.data_ptr() % 64 == 0
        assert tensor.dim() > 1 or tensor.untyped_storage().nbytes() == tensor.nbytes
        tensor.add_(1)
    torch.testing.assert_close(read, {name: tensor + 1 for name, tensor in tensors.items()}, rtol=0, atol=0)


@pytest.mark.parametrize("value", [1.0, 3e38, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_numbers_that_are_known_to_be_finite(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    """They are finite; where it is not known (overflow, other types), nothing is claimed."""
    tensors = {"a": torch.ones(3), "b": torch.full((5,), value).to(dtype)}
    write_tensors(tmp_path / "x", tensors)
    data = TensorData(tmp_path / "x")
    data.read()
    simple = value == 1.0 and dtype == torch.float32
    assert data.is_finite() == simple
