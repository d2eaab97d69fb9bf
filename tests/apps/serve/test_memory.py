"""Memory: budgets, what is given back, and the limit beyond which allocations fail."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from weft.apps.serve import memory
from weft.apps.serve.memory import MemoryBudget, give_back, memory_in_bytes, own_memory
from weft.apps.serve.settings import ServeSettings, make_settings
from weft.errors import RecipeError
from weft.runtime.processes import child_environment


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 1000)
    assert memory_in_bytes(ServeSettings(memory=0.25)) == 250
    assert memory_in_bytes(ServeSettings(memory=2e9)) == 2_000_000_000
    for wrong in (0, -1, 2, 1e6, True, "all"):
        with pytest.raises(RecipeError, match="above 0 and up to 1, or bytes, at least 100,000,000"):
            make_settings({"memory": wrong})


def test_the_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory.machine_memory()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", (str(tmp_path / "missing"), str(limit)))
    limit.write_text("1234567\n")
    assert memory.machine_memory() == 1_234_567 < whole
    for text in ("max\n", str(2**62)):  # no limit
        limit.write_text(text)
        assert memory.machine_memory() >= whole
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", ())
    monkeypatch.setattr(memory.os, "sysconf", lambda name: int("x"))
    assert memory.machine_memory() == memory.UNKNOWN_MEMORY


def test_the_service_imports_no_torch() -> None:
    program = "import sys, weft.apps.serve.app, weft.apps.serve.server; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=child_environment(),
        timeout=300,
        check=True,
    )
    assert done.stdout == "False\n"


def test_operations_wait_for_memory() -> None:
    budget, order = MemoryBudget(100), []

    def second() -> None:
        with budget.reserve(60) as reserved:
            order.append(("second", reserved))

    with budget.reserve(50):
        thread = threading.Thread(target=second)
        thread.start()
        with budget.reserve(40):
            assert budget.reserved == 90
        order.append(("first", True))
    thread.join(60)
    assert order == [("first", True), ("second", True)] and budget.reserved == 0


def test_who_has_left_waits_no_longer() -> None:
    budget = MemoryBudget(100)
    with budget.reserve(100):
        with budget.reserve(1, lambda: True) as reserved:
            assert not reserved
        assert budget.reserved == 100
    with budget.reserve(1, lambda: True) as reserved:
        assert reserved, "there was nothing to wait for"
    with MemoryBudget(None).reserve(1e18) as reserved:
        assert reserved
    with budget.reserve(101) as reserved:
        assert reserved and budget.reserved == 100


def test_memory_is_given_back() -> None:
    before = own_memory()
    if before is None:
        pytest.skip("the system does not say how much memory a process has")
    blocks = [bytearray(100_000) for _ in range(1_000)]
    blocks = blocks[::1_000]  # of 100 MB almost all is free, with a block in use at the end
    give_back()
    after = own_memory()
    assert after is not None and after - before < 50e6


def test_the_buffers_of_matrix_products_are_given_back() -> None:
    if own_memory() is None or not torch.backends.mkl.is_available():
        pytest.skip("without MKL there are none, or the system does not say how much memory a process has")
    factor = torch.rand(1500, 1500)
    memory: list[int] = []
    for _ in range(3):
        factor @ factor
        give_back()
        memory.append(own_memory() or 0)
    factor @ factor
    assert memory[-1] - memory[0] < 5e6 < (own_memory() or 0) - memory[-1]


PROGRAM = """
import torch
from weft.apps.serve.memory import limit_allocations
torch.zeros(10)
limit_allocations(100e6)
torch.zeros(10_000_000)
try:
    torch.zeros(100_000_000)
    print("allocated")
except RuntimeError as error:
    print("refused")
torch.zeros(10_000_000)
limit_allocations(None)
torch.zeros(100_000_000)
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_DATA)[1] != resource.RLIM_INFINITY, reason="limited already")
def test_allocations_beyond_the_budget_fail() -> None:
    """And nothing else does: 40 MB fit before and after."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=child_environment(),
        timeout=300,
        check=True,
    )
    assert done.stdout == "refused\n", done.stderr
