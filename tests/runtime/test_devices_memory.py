"""The memory that is available."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from weft.runtime import devices
from weft.runtime.devices import available_memory, device_memory


class TestMemory:
    def test_is_known(self) -> None:
        amount = available_memory()
        assert amount is None or 0 < amount < 1 << 50
        assert device_memory(torch.device("cpu")) is not None

    def test_of_a_control_group(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, text in {
            "memory.max": "1000",
            "memory.current": "700",
            "memory.stat": "anon 5\ninactive_file 60\n",
        }.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(devices, "_own_groups", lambda: [tmp_path])
        assert available_memory() == 360
        (tmp_path / "memory.max").write_text("max\n")
        assert (available_memory() or 1000) > 360

    def test_of_a_limit_of_the_shell(self) -> None:
        code = (
            "import os, resource; from weft.runtime.devices import available_memory\n"
            "used = int(open('/proc/self/statm').read().split()[0]) * os.sysconf('SC_PAGE_SIZE')\n"
            "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28),) * 2); print(available_memory())"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert 0 < int(run.stdout) <= 1 << 28
