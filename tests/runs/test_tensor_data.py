"""Reading tensors: a thread that reads them can be stopped."""

from __future__ import annotations

from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event

import pytest
import torch

from weft.runs import tensor_data
from weft.runs.weights import read_tensors, write_tensors


class StopsLater(Event):
    """Set when it is looked at for the third time."""

    looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 2


def test_reading_stops_between_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_data, "BLOCK_BYTES", 64)
    tensors = {"a": torch.arange(300.0), "b": torch.zeros(0), "c": torch.ones(7)}
    write_tensors(tmp_path / "x", tensors)
    stop = StopsLater()
    with pytest.raises(CancelledError):
        read_tensors(tmp_path / "x", stop)
    assert stop.looks == 3
    read = read_tensors(tmp_path / "x", Event()).tensors
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
