"""A process that compiles Triton's kernels beside the one that trains or translates: they share no interpreter lock.

Begun early, it imports what compiling takes while data are read and models built; then it forks a process for every
kernel. PyTorch, whose import takes longest, is not needed: the modules of kernels get a stand-in (`Absent`). They write
into Triton's cache on disk, where the process that needs the kernel finds it. Nothing depends on it: what it has not
compiled, whatever the reason, is not in the cache, and is compiled where it is needed
(`weft.fast.recording.compilation`); tests/fast/recording/test_compiler_process.py.
"""

from __future__ import annotations

import atexit
import inspect
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from types import ModuleType
from typing import Any, NamedTuple

KERNELS = Path(__file__).parents[1] / "triton"
SECONDS = 60.0
"""The longest that a kernel may take there, and the time without work after which the process is ended."""
STARTING_SECONDS = 1.5
"""So long after its begin, those who have work for it wait until it is ready: about the time that it takes."""
READY = b"ready"
SERVE = "import sys; sys.path[:] = sys.argv[1:]; from weft.fast.recording.compiler_process import serve; serve()"


class KernelJob(NamedTuple):
    """The arguments that Triton compiles a kernel with, and the name of the kernel, which is one of weft's."""

    module: str
    name: str
    signature: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    target: Any
    options: dict[str, Any]
    environment: dict[str, str]
    launcher: type[Any]

    @classmethod
    def of(cls, compile_kernel: Callable[[], Any], launcher: type[Any]) -> KernelJob:
        """``compile_kernel``: the function that Triton gives to its `AsyncCompileMode`."""
        values = inspect.getclosurevars(compile_kernel).nonlocals
        source = values["src"]
        parts = (source.signature, source.constants, source.attrs, values["target"], dict(values["options"].__dict__))
        return cls(source.fn.fn.__module__, source.fn.fn.__name__, *parts, values["env_vars"], launcher)

    def compile(self) -> None:
        """Compile the kernel and the function that launches it into Triton's cache."""
        from triton.compiler.compiler import ASTSource, compile

        function = getattr(sys.modules[self.module], self.name)  # of `serve`, which has imported all of weft
        source = ASTSource(function, self.signature, self.constants, self.attributes)
        kernel = compile(source, target=self.target, options=self.options, _env_vars=self.environment)
        self.launcher(kernel.src, kernel.metadata)


class CompilerProcess:
    """The process, for the one that has begun it."""

    def __init__(self, command: Sequence[str] | None = None, *, seconds: float = SECONDS) -> None:
        """``command``: in place of this module's `serve`; ``seconds``: see `SECONDS`."""
        command = command or [sys.executable, "-c", SERVE, *sys.path]
        self.seconds = seconds
        self.has_ended = False
        self._ready = Event()
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._jobs: dict[int, Future[bool]] = {}
        self._numbers = count()
        self._lock = Lock()
        self._reader = Thread(target=self._read, name="weft reads what was compiled", daemon=True)
        self._reader.start()
        atexit.register(self.close)

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set() and not self.has_ended

    def compile(self, job: Any) -> bool:
        """Have a kernel compiled, and wait for it: whether it was. False if the process is not ready."""
        self._ready.wait(max(self._begun + STARTING_SECONDS - time.monotonic(), 0.0))
        message = pickle.dumps(job)
        result: Future[bool] = Future()
        assert self._process.stdin is not None
        with self._lock:
            if not self.is_ready:
                return False
            number = next(self._numbers)
            self._jobs[number] = result
            try:
                self._process.stdin.write(number.to_bytes(8, "big") + len(message).to_bytes(8, "big") + message)
                self._process.stdin.flush()
            except (OSError, ValueError):  # it has ended
                return False
        try:
            return result.result(self.seconds)
        except TimeoutError:
            self.close()
            return False

    def close(self) -> None:
        """End the process; the jobs that it has are not done."""
        self.has_ended = True
        atexit.unregister(self.close)
        with suppress(OSError):
            self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        """Read which jobs are done, until the process ends, or has had no work for long."""
        assert self._process.stdout is not None
        output, rest = self._process.stdout.fileno(), b""
        while True:
            if not select.select([output], [], [], self.seconds)[0]:
                if self.is_ready and not self._jobs:
                    break
                continue
            received = os.read(output, 65536)
            if not received:
                break
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                self._note(line)
        with self._lock:
            self.has_ended = True
        self._ready.set()  # nobody waits for it any more
        for number in list(self._jobs):
            self._note(b"%d 0" % number)
        self.close()

    def _note(self, line: bytes) -> None:
        if line == READY:
            self._ready.set()
            return
        number, succeeded = map(int, line.split())
        self._jobs.pop(number).set_result(bool(succeeded))


class Absent(ModuleType):
    """In place of PyTorch and everything in it: can be called, subclassed and used in annotations, to no effect."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(name)

    def __call__(self, *arguments: Any, **options: Any) -> Absent:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __or__(self, other: Any) -> Absent:
        return self

    __ror__ = __getitem__ = __or__


class AbsentTorch(MetaPathFinder, Loader):
    """Finds `Absent` modules for PyTorch's."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""


def serve() -> None:
    """Compile what standard input names, each kernel in a process of its own, until it ends."""
    replies = os.dup(1)
    os.dup2(2, 1)  # compilers may print
    from triton.runtime.cache import triton_key

    sys.meta_path.insert(0, AbsentTorch())
    for path in sorted(KERNELS.glob("[!_]*.py")):
        with suppress(Exception):
            import_module(f"weft.fast.triton.{path.stem}")
    with suppress(Exception):
        triton_key()  # is kept: the checksum of all of Triton
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that supervise
    os.write(replies, READY + b"\n")
    while header := sys.stdin.buffer.read(16):
        number, size = int.from_bytes(header[:8], "big"), int.from_bytes(header[8:], "big")
        job = pickle.loads(sys.stdin.buffer.read(size))
        if not os.fork():
            _supervise(number, job, replies)


def _supervise(number: int, job: KernelJob, replies: int) -> None:
    """Compile in one more process, and report how it ended, even by a crash."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if not worker:
        try:
            job.compile()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(worker, 0)
    os.write(replies, b"%d %d\n" % (number, status == 0))
    os._exit(0)
