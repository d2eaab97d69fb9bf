"""The ordered map over fresh processes: the same answers as one process, errors that arrive, nothing left behind."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from weft.data.store.worker_processes import parallel_map
from weft.errors import DataError

BIG = b"x" * 300_000  # more than a pipe holds


class AwkwardError(Exception):
    """An error that cannot be made again of its one argument."""

    def __init__(self, first, second):
        super().__init__(f"{first}\nand {second}")


def work(kind):
    """What the workers of these tests do: made in the worker by this name."""
    if kind == "fails when made":
        raise ValueError("not made")
    if kind == "dies when made":
        os._exit(3)

    def function(item):
        if kind == "slow ones first":
            time.sleep(0.004 * (5 - item % 5))
            return item, item * item
        if kind == "prints":
            print("in the way")
            return item
        if kind == "process":
            return os.getpid()
        if kind == "sleeps":
            os.write(2, b"sleeping\n")  # in one piece: another process writes to the same pipe
            time.sleep(600)
        if kind == "dies" and item == 3:
            os.kill(os.getpid(), 9)
        if kind == "raises" and item == 3:
            raise DataError("row 3 is spoilt")
        if kind == "awkward":
            raise AwkwardError("one", "two")
        return len(item) if isinstance(item, bytes) else item

    return function


def children():
    """The processes that this one has started and not buried."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found |= {int(name) for name in (task / "children").read_text().split()}
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = children()
    yield
    assert children() <= before


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_answers_come_in_the_order_of_the_items(workers):
    found = list(parallel_map(work, "slow ones first", range(12), workers=workers))
    assert found == [(item, item * item) for item in range(12)]


def test_no_items_no_answers():
    assert list(parallel_map(work, "echo", [], workers=2)) == []


def test_the_work_is_done_elsewhere_and_shared():
    found = list(parallel_map(work, "process", range(20), workers=2))
    assert os.getpid() not in found and len(set(found)) == 2
    assert set(parallel_map(work, "process", range(3), workers=0)) == {os.getpid()}


def test_what_a_worker_prints_is_not_in_the_way(capfd):
    assert list(parallel_map(work, "prints", range(5), workers=1)) == list(range(5))
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("in the way") == 5


def test_items_larger_than_a_pipe():
    assert list(parallel_map(work, "echo", [BIG] * 5, workers=2)) == [len(BIG)] * 5


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_worker_arrives(workers):
    answers = parallel_map(work, "raises", range(9), workers=workers)
    assert [next(answers), next(answers), next(answers)] == [0, 1, 2]
    with pytest.raises(DataError, match=r"^row 3 is spoilt$"):
        next(answers)


def test_an_error_that_cannot_be_sent_arrives_in_one_line():
    with pytest.raises(DataError, match=r"^AwkwardError: one and two$"):
        list(parallel_map(work, "awkward", range(3), workers=1))


def test_a_function_that_cannot_be_made():
    with pytest.raises(ValueError, match=r"^not made$"):
        list(parallel_map(work, "fails when made", range(3), workers=2))


@pytest.mark.parametrize(
    ("kind", "items", "code"),
    [("dies", range(9), -9), ("dies when made", [BIG] * 9, 3), ("dies when made", range(9), 3)],
)
def test_a_process_that_ends_is_one_line(kind, items, code):
    with pytest.raises(DataError) as caught:
        list(parallel_map(work, kind, items, workers=2))
    wanted = f"a worker process ended (exit code {code}); too little memory? try fewer with data.workers"
    assert str(caught.value) == wanted


def test_a_process_that_is_killed_from_outside_is_one_line():
    before = children()
    answers = parallel_map(work, "slow ones first", range(1000), workers=2)
    next(answers)
    victim = min(children() - before)
    os.kill(victim, 9)
    with pytest.raises(DataError, match=r"^a worker process ended \(exit code -9\)"):
        list(answers)


def test_whoever_stops_listening_stops_the_processes():
    before = children()
    answers = parallel_map(work, "echo", (BIG for _ in range(1000)), workers=2)
    assert next(answers) == len(BIG)
    assert len(children() - before) == 2
    answers.close()
    assert not children() - before


def test_an_error_of_the_items_stops_the_processes():
    def items():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(parallel_map(work, "echo", items(), workers=2))


def test_a_killed_parent_leaves_no_processes():
    """Whatever they are doing: these sleep and will not read their pipes for ten minutes."""
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_worker_processes import work
from weft.data.store.worker_processes import parallel_map
list(parallel_map(work, "sleeps", range(2), workers=2))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert [parent.stderr.readline() for _ in range(2)] == ["sleeping\n"] * 2
    parent.kill()
    assert parent.communicate(timeout=60)[1] == "", "closed by all, long before they would look at their pipes"
