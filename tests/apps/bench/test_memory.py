"""The peak memory of a call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.apps.bench import memory
from weft.apps.bench.memory import peak_memory, tensor_bytes

CPU = torch.device("cpu")
MEGABYTE = 2**20


@pytest.mark.skipif(not memory.CLEAR.exists(), reason="only Linux tells the peak")
def test_what_is_allocated_and_released_counts_once() -> None:
    def call() -> None:
        for _ in range(3):
            torch.ones(16 * MEGABYTE)

    found = peak_memory(call, CPU)
    assert found is not None and 60 * MEGABYTE < found < 80 * MEGABYTE


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "no" / "file")
    assert peak_memory(lambda: calls.append(1), CPU) is None and calls == [1]
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "file")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "file")
    assert peak_memory(lambda: calls.append(1), CPU) is None and calls == [1, 1]


def test_bytes_of_nested_tensors() -> None:
    assert tensor_bytes({"a": [torch.zeros(3), (torch.zeros(2, dtype=torch.float64),)], "b": 7}) == 28
