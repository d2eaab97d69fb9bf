"""Process-wide switches: blocks in several threads, and what is left when they have ended."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import weft
from weft.runtime.switches import (
    SWITCH_SECONDS,
    Tf32Switch,
    allow_tf32,
    collection_paused,
    existing_objects_frozen,
    frequent_thread_switches,
    frozen_afterwards,
    single_core_threads,
    thread_count,
    unfreeze_objects,
)

SECONDS = 30
"""How long a test waits for what must happen."""
SOURCE = Path(weft.__file__).parent


def tf32() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


class Block:
    """A thread that is in a block of a mode until it is told to leave."""

    def __init__(self, mode: bool) -> None:
        self.entered, self.may_leave, self.seen = threading.Event(), threading.Event(), tf32()
        self.mode = mode
        self.thread = started(self.run)

    def run(self) -> None:
        with allow_tf32(self.mode):
            self.seen = tf32()
            self.entered.set()
            self.may_leave.wait(SECONDS)

    def leave(self) -> None:
        self.may_leave.set()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_put_back(allowed: bool) -> None:
    before = tf32()
    with allow_tf32(allowed):
        assert tf32() == (allowed, allowed)
        with allow_tf32(allowed):
            assert tf32() == (allowed, allowed)
        with allow_tf32(not allowed):
            assert tf32() == (not allowed, not allowed)
            with allow_tf32(allowed):
                assert tf32() == (allowed, allowed)
            assert tf32() == (not allowed, not allowed)
        assert tf32() == (allowed, allowed)
    assert tf32() == before
    with pytest.raises(ZeroDivisionError), allow_tf32(allowed):
        _ = 1 / 0
    assert tf32() == before


def test_blocks_of_one_mode_overlap() -> None:
    before = tf32()
    first = Block(True)
    assert first.entered.wait(SECONDS)
    second = Block(True)
    assert second.entered.wait(SECONDS) and second.seen == (True, True)
    first.leave()
    assert tf32() == (True, True)
    second.leave()
    assert tf32() == before


def test_a_block_of_the_other_mode_waits() -> None:
    before = tf32()
    with allow_tf32(False):
        other = Block(True)
        assert not other.entered.wait(0.1) and tf32() == (False, False)
        with allow_tf32(False):
            assert tf32() == (False, False), "inside its own mode, a thread never waits"
        late = Block(False)
        assert not late.entered.wait(0.1), "it does not overtake the one that waits"
    assert other.entered.wait(SECONDS) and other.seen == (True, True)
    assert not late.entered.wait(0.1)
    other.leave()
    assert late.entered.wait(SECONDS) and late.seen == (False, False)
    late.leave()
    assert tf32() == before


def test_two_threads_that_each_nest_the_other_mode() -> None:
    """Neither holds its outer block while it waits, so both come through."""
    before, both_are_in = tf32(), threading.Barrier(2, timeout=SECONDS)
    seen = []

    def nest() -> None:
        with allow_tf32(True):
            both_are_in.wait()
            with allow_tf32(False):
                seen.append(tf32())
            seen.append(tf32())

    threads = [started(nest) for _ in range(2)]
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert sorted(seen) == [(False, False)] * 2 + [(True, True)] * 2 and tf32() == before


def test_an_interrupted_wait_blocks_nobody() -> None:
    class Interrupted(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    switch, before = Tf32Switch(), tf32()
    first, may_leave = threading.Event(), threading.Event()

    def hold() -> None:
        with switch.block(True):
            first.set()
            may_leave.wait(SECONDS)

    thread = started(hold)
    assert first.wait(SECONDS)
    switch._changed = Interrupted()
    with pytest.raises(KeyboardInterrupt), switch.block(False):
        raise AssertionError("entered")
    switch._changed = threading.Condition()
    with switch.block(True):
        assert tf32() == (True, True)
    may_leave.set()
    thread.join(SECONDS)
    assert tf32() == before


@pytest.mark.gpu
def test_tf32_rounds() -> None:
    one = torch.randn(256, 256, device="cuda")
    exact = one.double() @ one.double()
    errors = []
    for allowed in (False, True):
        with allow_tf32(allowed):
            errors.append(float((one @ one - exact).abs().max()))
    assert errors[0] < 1e-4 < 1e-3 < errors[1] < 0.5


@pytest.fixture
def three_cores() -> Iterator[None]:
    with thread_count(3):
        yield


@pytest.mark.usefixtures("three_cores")
def test_threads_of_one_core() -> None:
    with single_core_threads(2, "one core") as pool:
        assert torch.get_num_threads() == 3
        assert [pool.submit(torch.get_num_threads).result() for _ in range(4)] == [1] * 4
        elsewhere: list[int] = []
        started(lambda: elsewhere.append(torch.get_num_threads())).join(SECONDS)
        assert elsewhere == [3]
    with pytest.raises(KeyError), thread_count(2):
        assert torch.get_num_threads() == 2
        raise KeyError
    assert torch.get_num_threads() == 3


def test_the_switch_interval_is_put_back_by_the_last_block() -> None:
    before = sys.getswitchinterval()
    first, second = frequent_thread_switches(), frequent_thread_switches()
    with first:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.1)
        second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.1)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


@pytest.fixture
def collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_paused_and_goes_on_as_before(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    frozen = gc.get_freeze_count()
    second = collection_paused()
    with pytest.raises(KeyError), collection_paused():
        second.__enter__()
        raise KeyError
    assert not gc.isenabled(), "the second block has not ended"
    second.__exit__(None, None, None)
    assert gc.isenabled() == enabled and gc.get_freeze_count() <= frozen  # other threads free what is frozen


@pytest.mark.usefixtures("collector")
def test_what_a_program_has_loaded_is_frozen() -> None:
    gc.enable()
    unfreeze_objects()
    with frozen_afterwards():
        assert not gc.isenabled() and gc.get_freeze_count() == 0
    assert gc.isenabled() and gc.get_freeze_count() > 0
    unfreeze_objects()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_existing_objects_are_frozen_until_the_last_block_has_ended() -> None:
    unfreeze_objects()
    second = existing_objects_frozen()
    with existing_objects_frozen():
        second.__enter__()
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() > 0
    second.__exit__(None, None, None)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_objects_that_a_program_has_frozen_stay_so() -> None:
    with frozen_afterwards():
        pass
    with existing_objects_frozen():
        pass
    assert gc.get_freeze_count() > 0


def test_importing_and_loading_leave_the_collector_alone(tmp_path: Path) -> None:
    """Nor does importing change how warnings are filtered."""
    code = """
import gc, sys, warnings
filters = list(warnings.filters)
import weft.runtime.switches
assert "torch" not in sys.modules
calls = []
gc.disable = gc.enable = gc.freeze = gc.unfreeze = lambda: calls.append(1)
for name in weft.__all__:
    getattr(weft, name)
try:
    weft.load(sys.argv[1])
except weft.WeftError:
    pass
assert not calls
import weft.recipe.model
mine = [entry for entry in warnings.filters if entry not in filters and entry[1] is not None]
assert not [entry for entry in mine if "copy" in entry[1].pattern], mine
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "none")], check=True)


def test_nobody_else_turns_a_switch() -> None:
    turns = re.compile(
        r"set_num_threads\(|setswitchinterval\(|\bgc\.(?:disable|enable|freeze|unfreeze)\b|\.allow_tf32 = "
        r"|^warnings\.(?:filterwarnings|simplefilter)",
        re.MULTILINE,
    )
    files = [path for path in SOURCE.rglob("*.py") if turns.search(path.read_text("utf-8"))]
    assert [str(path.relative_to(SOURCE)) for path in files] == ["runtime/switches.py"]
