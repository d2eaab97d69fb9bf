"""Process-wide switches, each with one owner: TF32, oneDNN, thread counts, switch interval, garbage collector.

PyTorch and Python have one value of each for all threads, and the code that calls weft depends on them too. So weft
changes them only here, for the time of a ``with`` block, and puts them back when the last block that needs them has
ended, whatever the order. What lasts longer is left to programs, that is the command line and the processes of the
service: `set_thread_count` and `frozen_afterwards`.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

SWITCH_SECONDS = 0.00002
"""Switch interval of the interpreter's threads while a search runs in the background, in seconds."""


class Tf32Switch:
    """Whether CUDA rounds the factors of fp32 matrix products to TF32: one setting for a whole process.

    Blocks of one mode may overlap in several threads; a block of the other mode waits until they have ended, and those
    that come after it wait behind it. Within one thread, a block inside another of the same mode never waits, and one
    of the other mode takes its place: the outer block is left for that time, and entered again at the end of the inner
    one. So no thread holds one mode while it waits for the other. A block must not wait for another thread that enters
    one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._mode = False
        self._threads = 0
        """Number of threads in a block of this mode."""
        self._waiting: deque[object] = deque()
        self._before = (False, False)
        self._own = threading.local()

    @contextmanager
    def block(self, allowed: bool) -> Iterator[None]:
        outer: bool | None = getattr(self._own, "mode", None)
        if outer == allowed:
            yield
            return
        try:
            self._leave()
            self._enter(allowed)
            yield
        finally:
            self._leave()
            self._enter(outer)

    def _enter(self, mode: bool | None) -> None:
        if mode is None:
            return
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket and (not self._threads or self._mode == mode))
                if not self._threads:
                    self._mode, self._before = mode, _get_tf32()
                    _set_tf32(mode, mode)
                self._threads += 1
                self._own.mode = mode
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _leave(self) -> None:
        if getattr(self._own, "mode", None) is None:
            return
        with self._changed:
            self._own.mode = None
            self._threads -= 1
            if not self._threads:
                _set_tf32(*self._before)
                self._changed.notify_all()


def _get_tf32() -> tuple[bool, bool]:
    import torch

    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _set_tf32(matmul: bool, cudnn: bool) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = matmul
    torch.backends.cudnn.allow_tf32 = cudnn


allow_tf32 = Tf32Switch().block
"""``with allow_tf32(True):`` matrix products and recurrent layers on a GPU may use TF32; with False they may not."""


def set_thread_count(count: int) -> None:
    """Set the number of PyTorch's CPU threads for this thread and those started later; for programs."""
    import torch

    torch.set_num_threads(count)


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """Set the number of PyTorch's CPU threads for this thread, in the block. A generator must not suspend it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_starting_threads = threading.Lock()


def single_core_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Threads in which PyTorch computes on one core each; the number of the calling thread stays what it is."""
    import torch

    with _starting_threads:
        cores, all_started = torch.get_num_threads(), threading.Barrier(count)
        pool = ThreadPoolExecutor(count, name, initializer=_use_one_core)
        wait([pool.submit(all_started.wait) for _ in range(count)])
        torch.set_num_threads(cores)  # of threads that are started from now on; that of this one has not changed
    return pool


def _use_one_core() -> None:
    import torch

    torch.set_num_threads(1)
    torch.get_num_threads()  # the first call in a thread adopts the number last set in any thread: here 1


class _CountedSwitch:
    """A switch that the first block changes and the last one puts back; blocks in several threads may overlap."""

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        """``change``: returns what puts it back."""
        self._change = change
        self._lock = threading.Lock()
        self._blocks = 0

    @contextmanager
    def block(self) -> Iterator[None]:
        with self._lock:
            if not self._blocks:
                self._put_back = self._change()
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._put_back()


def _switch_often() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(SWITCH_SECONDS, before))
    return partial(sys.setswitchinterval, before)


def _pause_collection() -> Callable[[], None]:
    before = gc.isenabled()
    gc.disable()
    return gc.enable if before else gc.disable


def _freeze_objects() -> Callable[[], None]:
    if gc.get_freeze_count():  # by a program, for as long as it runs
        return lambda: None
    gc.freeze()
    return gc.unfreeze


def _multiply_by_onednn() -> Callable[[], None]:
    import torch

    products: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    return partial(setattr, products, "fp32_precision", before)


frequent_thread_switches = _CountedSwitch(_switch_often).block
"""A context in which Python switches between threads every `SWITCH_SECONDS`."""
collection_paused = _CountedSwitch(_pause_collection).block
"""No garbage collection in the block: during a CUDA graph capture, it may free what invalidates the capture."""

onednn_products = _CountedSwitch(_multiply_by_onednn).block
"""Products of fp32 matrices on a CPU by oneDNN, which may round them to bf16 (`weft.fast.cpu.products`)."""
existing_objects_frozen = _CountedSwitch(_freeze_objects).block
"""The garbage collector leaves what exists before the block alone: examining all modules takes 0.2 s, and stops all
threads for that long."""


@contextmanager
def frozen_afterwards() -> Iterator[None]:
    """No garbage collection in the block, and none of what exists after it; for programs that own their process.

    While modules are imported, it takes as long as the imports.
    """
    with collection_paused():
        try:
            yield
        finally:
            gc.freeze()


def unfreeze_objects() -> None:
    """Let the garbage collector examine again what it was told to leave alone."""
    gc.unfreeze()
