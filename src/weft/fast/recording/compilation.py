"""Triton kernels compiled in threads, all that an update needs at the same time, before they are launched.

Triton compiles a kernel when it is first launched with arguments of new types, and some versions have a C compiler make
a function that launches it. That takes 0.3 to 3 seconds, one kernel after the other, and the device waits. Here a
computation is first called without launching kernels of Triton (`rehearse`): those that are missing are compiled by
threads (Triton releases the interpreter for most of the time), and a launch waits for its own kernel only. Triton keeps
compiled kernels on disk, by source, versions of itself and its compiler, and kind of device; `weft warm` fills that
cache, and what was rehearsed once is not rehearsed again (`Rehearsals`).

Equal to compiling at the first launch, which is also what happens if anything goes wrong here;
tests/fast/recording/test_compilation.py.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Lock, Thread, main_thread
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weft.files import cache_folder

KERNELS = Path(__file__).parents[1] / "triton"
MAX_THREADS = 16
_rehearsing: ContextVar[bool] = ContextVar("kernels of Triton are compiled and not launched", default=False)
_one_rehearsal = Lock()


class CompilerThreads:
    """Threads that compile and end when nothing is left to do. Work not begun when the program ends is left out."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = 0
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.lock = Lock()

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:
            self.waiting.append((future, function))
            is_missing = self.running < self.count
            self.running += is_missing
        if is_missing:
            Thread(target=self._work, name="weft compiles kernels").start()
        return future

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self.waiting or not main_thread().is_alive():
                    self.running -= 1
                    return
                future, function = self.waiting.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)


class PendingKernel:
    """In place of a kernel that is being compiled: what is read of it waits for it.

    If a thread could not compile it, the launch does, and raises its error.
    """

    def __init__(self, future: Future[Any], compile_kernel: Callable[[], Any], finish: Callable[[Any], None]) -> None:
        """``finish``: puts the kernel where Triton looks for it."""
        self._future, self._compile, self._finish = future, compile_kernel, finish

    def result(self) -> Any:
        try:
            kernel = self._future.result()
        except Exception:
            kernel = self._compile()
        self._finish(kernel)
        return kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)


class BackgroundCompilation:
    """In place of Triton's `AsyncCompileMode`, which waits for all kernels when it is left."""

    def __init__(self) -> None:
        self.threads = CompilerThreads(min(len(os.sched_getaffinity(0)), MAX_THREADS))
        self.submitted: list[Future[Any]] = []

    def submit(self, key: Any, compile_kernel: Callable[[], Any], finish: Callable[[Any], None]) -> PendingKernel:
        """Called by Triton for a kernel that is missing."""
        from triton.runtime import driver

        def compile_with_launcher() -> Any:
            kernel = compile_kernel()
            with suppress(Exception):  # is found in the cache at the first launch, or made then
                driver.active.launcher_cls(kernel.src, kernel.metadata)
            return kernel

        future = self.threads.submit(compile_with_launcher)
        self.submitted.append(future)
        pending = PendingKernel(future, compile_kernel, finish)
        finish(pending)
        return pending


_compilation = BackgroundCompilation()


def rehearse(function: Callable[[], object]) -> None:
    """Call a function without launching kernels of Triton; those that are missing are compiled in the background.

    Everything else is computed: from zeros in place of the results of these kernels. So the function may only write
    what is overwritten before it is read. The random numbers that it draws are drawn again. Whatever it raises is left
    to the call that matters.
    """
    if not torch.cuda.is_available():
        return
    state = torch.cuda.get_rng_state()
    try:
        # in this thread: another would neither know of the rehearsal nor of the memory mode
        with _one_rehearsal, _compiling_only(), _ZeroedMemory(), torch.autograd.set_multithreading_enabled(False):
            function()
    except Exception:  # also: a version of Triton without what is used here
        return
    finally:
        torch.cuda.set_rng_state(state)


@contextmanager
def _compiling_only() -> Iterator[None]:
    """Launches of this thread compile their kernels in the background; those of others are as ever."""
    from triton.runtime._async_compile import active_mode
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        return launch(self, *arguments, grid=grid, warmup=warmup or _rehearsing.get(), **options)

    mode, rehearsing = active_mode.set(_compilation), _rehearsing.set(True)
    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = launch
        _rehearsing.reset(rehearsing)
        active_mode.reset(mode)


def wait_for_kernels() -> None:
    """Wait until all kernels that were rehearsed are compiled, or could not be."""
    for future in list(_compilation.submitted):
        future.exception()


ALLOCATING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


class _ZeroedMemory(TorchDispatchMode):
    """Allocated memory contains zeros: a kernel that is not launched leaves valid indices."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else PyTorch imports its compiler, which takes a second or two, to keep it out of this mode."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result.zero_() if function.overloadpacket.__name__ in ALLOCATING else result


class Rehearsals:
    """A note in the cache (`weft.files.cache_folder`) that a computation was rehearsed on this machine."""

    def __init__(self, *computation: object) -> None:
        """``computation``: what determines which kernels it needs, by its ``repr``."""
        self.path: Path | None = None
        folder = cache_folder()
        if folder is None or not torch.cuda.is_available():
            return
        with suppress(Exception):
            import triton

            versions = (torch.__version__, triton.__version__, torch.cuda.get_device_name())
            kept_in = os.environ.get("TRITON_CACHE_DIR") or os.environ.get("TRITON_HOME") or str(Path.home())
            digest = hashlib.sha256(repr((*versions, kept_in, computation)).encode())
            for source in sorted(KERNELS.glob("*.py")):
                digest.update(source.read_bytes())
            self.path = folder / "rehearsed" / digest.hexdigest()[:24]

    @property
    def are_done(self) -> bool:
        return self.path is not None and self.path.exists()

    def note(self) -> None:
        if self.path is not None:
            with suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch()
