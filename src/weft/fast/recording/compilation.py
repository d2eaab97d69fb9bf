"""Triton kernels compiled all at the same time, before they are launched.

Triton compiles a kernel when it is first launched with arguments of new types, and some versions have a C compiler make
a function that launches it. That takes 0.3 to 3 seconds, one kernel after the other, and the device waits. Here a
computation, an update or a search, is first called without launching kernels of Triton (`rehearse`): those that are
missing are compiled by another process (`weft.fast.recording.compiler_process`) or, until that is ready, by threads;
a launch waits for its own kernel only. What Triton does once in a process begins when a device is chosen
(`prepare_compiler`). Triton keeps compiled kernels on disk, by source, versions of itself and its compiler, and kind of
device; `weft warm` fills that cache, and what was rehearsed once is not rehearsed again (`Rehearsals`).

Equal to compiling at the first launch, which is also what happens if anything goes wrong here, and always with
``WEFT_COMPILE_AHEAD=0``; tests/fast/recording/test_compilation.py.
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

from weft.fast.recording.compiler_process import KERNELS, CompilerProcess, KernelJob
from weft.files import cache_folder

MAX_THREADS, MAX_PROCESSES = 16, 3
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
        self.process: CompilerProcess | None = None
        self.processes_begun = 0

    def submit(self, key: Any, compile_kernel: Callable[[], Any], finish: Callable[[Any], None]) -> PendingKernel:
        """Called by Triton for a kernel that is missing."""
        from triton.runtime import driver

        self.begin_process()

        def compile_with_launcher() -> Any:
            with suppress(Exception):  # what is not in the cache afterwards is compiled here
                if self.process is not None:
                    self.process.compile(KernelJob.of(compile_kernel, driver.active.launcher_cls))
            kernel = compile_kernel()
            with suppress(Exception):  # is found in the cache at the first launch, or made then
                driver.active.launcher_cls(kernel.src, kernel.metadata)
            return kernel

        future = self.threads.submit(compile_with_launcher)
        self.submitted.append(future)
        pending = PendingKernel(future, compile_kernel, finish)
        finish(pending)
        return pending

    def begin_process(self) -> None:
        """Begin a process that compiles, unless there is one, or some have failed."""
        if (self.process is None or self.process.has_ended) and self.processes_begun < MAX_PROCESSES:
            self.processes_begun += 1
            with suppress(Exception):
                self.process = CompilerProcess()


_compilation = BackgroundCompilation()
_preparation: Thread | None = None
_begin = Lock()


def compiles_ahead() -> bool:
    """Whether updates and searches are rehearsed."""
    return os.environ.get("WEFT_COMPILE_AHEAD") != "0"


def is_compiled_for(device: torch.device, *, is_idle: bool = False) -> bool:
    return device.type == "cuda" and compiles_ahead()


def prepare_compiler(device: torch.device, *, is_idle: bool = False) -> None:
    """Begin, once in a process, what Triton does before the first kernel; on an idle device also with its products."""
    global _preparation
    with _begin:
        if _preparation is None:
            _preparation = Thread(target=_prepare, args=(device, is_idle), name="weft prepares kernels", daemon=True)
            _preparation.start()


def _prepare(device: torch.device, is_idle: bool) -> None:
    with suppress(Exception):  # whatever it is, it occurs again where it matters
        folder = rehearsed_kernels()
        if folder is None or not folder.exists():
            _compilation.begin_process()
        from triton.runtime import driver
        from triton.runtime.cache import triton_key

        _ = driver.active  # has a part of it compiled, if that is not in the cache
        triton_key()  # is kept: the checksum of all of Triton
    with suppress(Exception):
        for dtype in (torch.bfloat16, torch.float32) if is_idle else ():
            square = torch.ones(256, 256, device=device, dtype=dtype, requires_grad=True)
            (square @ square).sum().backward()  # loads the libraries of products, and starts the threads of autograd


def wait_for_preparation() -> None:
    """Wait for `prepare_compiler`: its products would disturb the capture of an update."""
    if _preparation is not None:
        _preparation.join()


def rehearse(function: Callable[[], object]) -> None:
    """Call a function without launching kernels of Triton; those that are missing are compiled in the background.

    Everything else but matrix products is computed: from zeros in place of the results of these. So the function may
    only write what is overwritten before it is read. The random numbers that it draws are drawn again. Whatever it
    raises is left to the call that matters.
    """
    if not torch.cuda.is_available():
        return
    wait_for_preparation()
    states = torch.cuda.get_rng_state(), torch.get_rng_state()
    try:
        # in this thread: another would neither know of the rehearsal nor of the memory mode
        with _one_rehearsal, _compiling_only(), _ZeroedMemory(), torch.autograd.set_multithreading_enabled(False):
            function()
    except Exception:  # also: a version of Triton without what is used here
        return
    finally:
        torch.cuda.set_rng_state(states[0])
        torch.set_rng_state(states[1])


def is_rehearsing() -> bool:
    """Whether this thread launches no kernels of Triton: what is computed has no meaning, and may not be kept."""
    return _rehearsing.get()


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
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "_addmm_activation")
"""Products of the last two tensors that they are given."""


class _ZeroedMemory(TorchDispatchMode):
    """Allocated memory contains zeros: a kernel that is not launched leaves valid indices. Products are zeros, too: to
    load the libraries for them, on their first use, would keep the kernels that follow from being found."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else PyTorch imports its compiler, which takes a second or two, to keep it out of this mode."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = function.overloadpacket.__name__, kwargs or {}
        if name in PRODUCTS and "out" not in options and "dtype" not in options:
            factors = [part for part in args if isinstance(part, torch.Tensor)][-2:]
            left, right = factors
            return left.new_zeros(*left.shape[:-1], right.shape[-1])
        result = function(*args, **options)
        return result.zero_() if name in ALLOCATING else result


def rehearsed_kernels() -> Path | None:
    """The folder of the notes about these kernels, by their source, the versions that compile them and their cache."""
    folder = cache_folder()
    if folder is None:
        return None
    import triton

    kept_in = os.environ.get("TRITON_CACHE_DIR") or os.environ.get("TRITON_HOME") or str(Path.home())
    digest = hashlib.sha256(repr((torch.__version__, triton.__version__, kept_in)).encode())
    for source in sorted(KERNELS.glob("*.py")):
        digest.update(source.read_bytes())
    return folder / "rehearsed" / digest.hexdigest()[:24]


class Rehearsals:
    """A note in the cache (`weft.files.cache_folder`) that a computation was rehearsed on this machine."""

    def __init__(self, *computation: object) -> None:
        """``computation``: what determines which kernels it needs, by its ``repr``."""
        self.path: Path | None = None
        with suppress(Exception):
            if torch.cuda.is_available() and (folder := rehearsed_kernels()) is not None:
                digest = hashlib.sha256(repr((torch.cuda.get_device_name(), computation)).encode())
                self.path = folder / digest.hexdigest()[:24]

    @property
    def are_done(self) -> bool:
        return self.path is not None and self.path.exists()

    def note(self) -> None:
        if self.path is not None:
            with suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch()
