"""Child processes with limits: what they return, and what becomes of those that exceed a limit."""

import os
import pickle
import signal

import pytest

from weft.text import isolation
from weft.text.isolation import IsolatedError, IsolatedProcess

MODULE = "fixtures.isolated_functions"


@pytest.fixture(scope="module")
def process():
    return IsolatedProcess(MODULE)


def test_results_errors_and_panics(process):
    assert process.call("double", [1, 2]) == [2, 4]
    with pytest.raises(IsolatedError, match="division by zero"):
        process.call("divide", [1, 0])
    assert process.call("double", [3]) == [6]


def test_too_much_time(process, monkeypatch):
    monkeypatch.setattr(isolation, "CPU_SECONDS", 0.05)
    with pytest.raises(IsolatedError, match=r"^took more than 0.05 seconds$") as caught:
        process.call("loop", ["x", "y", "forever", "z"])
    assert caught.value.item == 2
    monkeypatch.undo()
    assert process.call("double", [1]) == [2]  # by a new process


def test_too_much_memory_and_death(process):
    with pytest.raises(IsolatedError):
        process.call("allocate", 1 << 40)
    with pytest.raises(IsolatedError, match="needs too much memory, or has made its library abort"):
        process.call("kill")
    assert process.call("double", [1]) == [2]


def test_a_child_gets_its_start_again_and_a_copy_its_own_child():
    process = pickle.loads(pickle.dumps(IsolatedProcess(MODULE, ("remember", 7))))
    assert process.call("remembered") == 7
    first = process.call("pid")
    os.kill(first, signal.SIGKILL)
    with pytest.raises(IsolatedError):
        process.call("remembered")
    assert process.call("remembered") == 7 and process.call("pid") != first
