"""Triton kernels compiled in threads, all that a computation needs at the same time, before they are launched.

Triton compiles a kernel when it is first launched with arguments of new types, and some versions have a C compiler make
a function that launches it. That takes 0.3 to 3 seconds, one kernel after the other, and the device waits. Here a
computation is first called without launching kernels of Triton (`rehearse`): those that are missing are compiled by
threads (Triton releases the interpreter while it compiles), and a launch waits for its own kernel only. Triton keeps
compiled kernels on disk, by source, versions of itself and its compiler, and kind of device; `weft warm` fills
that cache.

Equal to compiling at the first launch; tests/fast/recording/test_compilation.py.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from functools import cache
from threading import Lock, Thread, main_thread
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MAX_THREADS = 32
_rehearsing: ContextVar[bool] = ContextVar("kernels of Triton are compiled and not launched", default=False)


class CompilerThreads(Executor):
    """Threads that compile and end when nothing is left to do. Work not begun when the program ends is left out."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = 0
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.lock = Lock()

    def submit(self, function: Callable[[], Any], /) -> Future[Any]:  # type: ignore[override]
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
            except BaseException as error:  # raised where the kernel is launched
                future.set_exception(error)


@cache
def _compilation() -> Any:
    """The mode of Triton in which compilations are submitted to threads; None: this version has none."""
    try:
        from triton.runtime import driver
        from triton.runtime._async_compile import AsyncCompileMode, active_mode
        from triton.runtime.jit import JITFunction
    except ImportError:
        return None

    class InBackground(AsyncCompileMode):
        def submit(self, key: Any, compile_kernel: Callable[[], Any], finish: Callable[[Any], None]) -> Any:
            def compile_with_launcher() -> Any:
                kernel = compile_kernel()
                driver.active.launcher_cls(kernel.src, kernel.metadata)  # is found in the cache at the first launch
                return kernel

            submitted = super().submit(key, compile_with_launcher, finish)
            finish(submitted)  # in place of the kernel: a launch waits for its result
            return submitted

        def __exit__(self, *_: object) -> None:
            active_mode.set(None)  # the plain one waits for all compilations

    launch = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        return launch(self, *arguments, grid=grid, warmup=warmup or _rehearsing.get(), **options)

    JITFunction.run = run
    return InBackground(CompilerThreads(min(len(os.sched_getaffinity(0)), MAX_THREADS)))


def rehearse(function: Callable[[], object]) -> None:
    """Call a function without launching kernels of Triton; those that are missing are compiled in the background.

    Everything else is computed: from zeros in place of the results of these kernels. So the function may only write
    what is overwritten before it is read. The random numbers that it draws are drawn again.
    """
    if not torch.cuda.is_available() or (compilation := _compilation()) is None:
        return
    token, state = _rehearsing.set(True), torch.cuda.get_rng_state()
    try:
        # in this thread: another would neither know of the rehearsal nor of the memory mode
        with compilation, _ZeroedMemory(), torch.autograd.set_multithreading_enabled(False):
            function()
    finally:
        _rehearsing.reset(token)
        torch.cuda.set_rng_state(state)


def wait_for_kernels() -> None:
    """Wait until all kernels that were rehearsed are compiled."""
    compilation = _compilation()
    for kernel in () if compilation is None else list(compilation.future_kernels.values()):
        kernel.result()


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
