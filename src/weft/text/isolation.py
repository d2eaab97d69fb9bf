"""A child process for work that may never end: regular expressions, and tokenizer files of unknown origin.

A regular expression can take exponential time, and a tokenizer file can make its library abort, loop or ask for any
amount of memory; nothing inside a process can stop that. So they run in a child process with limits on CPU time and
memory. If a limit is exceeded or the child dies, `IsolatedProcess.call` raises `IsolatedError`; the next call starts
a new child. A child ends with its parent, when its standard input is closed, or by its CPU limit if it is busy then.

Messages (`weft.runtime.processes`) are JSON in both directions: nothing that a child sends can run code. `serve` is the
loop of a child; it reports which of several items it is working on through shared memory.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO, Any, TypeVar

from weft.errors import VocabularyError
from weft.runtime.processes import child_environment, message_pipes, read_message, write_message

CPU_SECONDS = 10.0
"""CPU time that every call may take, whatever its size."""
BYTES_PER_SECOND = 1 << 20
"""Bytes of a request per additional second of its time limit."""
MEMORY_BYTES = 8 << 30
"""Address space of a child."""
_ITEM = struct.Struct("<q")

T = TypeVar("T")


class IsolatedError(Exception):
    """A call that a child process could not complete; the message is a reason to put after what it worked on."""

    def __init__(self, reason: str, item: int) -> None:
        super().__init__(reason)
        self.item = item
        """Index of the item that it worked on; -1 if it worked on none in particular."""


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Turn an error of the tokenizers library, even a panic, which is not an `Exception`, into a `VocabularyError`."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())[:200]
        raise VocabularyError(f"{what}: {reason}") from None


class IsolatedProcess:
    """Calls the functions of a module that calls `serve`, in a child process that is started by the first call."""

    def __init__(self, module: str, start: tuple[Any, ...] = ()) -> None:
        """``start``: name and arguments of a call that every new child gets first."""
        self._module = module
        self._start = start
        self._lock = Lock()
        self._child: _Child | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._module, self._start)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function in the child; `IsolatedError` if it raises an error, exceeds a limit or ends its process."""
        with self._lock:
            if self._child is None or self._child.parent != os.getpid():
                self._child = _Child(self._module)
                if self._start:
                    self._request(*self._start)
            return self._request(name, *arguments)

    def _request(self, *request: Any) -> Any:
        assert self._child is not None
        try:
            succeeded, result = self._child.request(request)
        except EOFError:
            reason, item = self._child.close(), self._child.item
            self._child = None
            raise IsolatedError(reason, item) from None
        except BaseException:  # the answer to an interrupted request would be taken for the next one's
            self._child.close()
            self._child = None
            raise
        if not succeeded:
            raise IsolatedError(result, self._child.item)
        return result


class _Child:
    """A running child process."""

    def __init__(self, module: str) -> None:
        self.parent = os.getpid()
        with tempfile.TemporaryFile() as shared:
            shared.truncate(mmap.PAGESIZE)
            self._shared = mmap.mmap(shared.fileno(), mmap.PAGESIZE)
            command = [sys.executable, "-P", "-m", module, str(shared.fileno())]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a library that panics writes to it
                pass_fds=[shared.fileno()],
                env=child_environment(MALLOC_ARENA_MAX="2"),
            )
        weakref.finalize(self, _end, self._process)

    @property
    def item(self) -> int:
        return int(_ITEM.unpack_from(self._shared)[0]) - 1

    def request(self, request: tuple[Any, ...]) -> tuple[bool, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _write(self._process.stdin, (CPU_SECONDS, *request))
        except BrokenPipeError:
            raise EOFError from None
        succeeded, result = _read(self._process.stdout)
        return succeeded, result

    def close(self) -> str:
        """End the child; why it ended if it had already."""
        code = _end(self._process)
        if code == -signal.SIGPROF:
            return f"took more than {CPU_SECONDS:g} seconds"
        return "needs too much memory, or has made its library abort"


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a child and close its pipes; returns its exit code if it had already ended."""
    with suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr]
    process.stdout.close()  # type: ignore[union-attr]
    with suppress(subprocess.TimeoutExpired):
        return process.wait(0.2)  # of a process that has died, or reads the end of its input
    process.kill()
    return process.wait()


def serve(functions: Mapping[str, Callable[..., Any]]) -> None:
    """The loop of a child process: calls functions until its input ends."""
    _limit_memory()
    requests, results = message_pipes()
    while True:
        try:
            seconds, name, *arguments = _read(requests)
        except EOFError:
            return
        _limit_time(seconds + sum(len(text) for argument in arguments for text in _sized(argument)) / BYTES_PER_SECOND)
        _shared_item(0)
        try:
            answer = True, functions[name](*arguments)
        except BaseException as error:  # a panic of a Rust library is not an Exception
            answer = False, " ".join(str(error).split())[:200] or type(error).__name__
        _write(results, answer)


def each(items: Iterable[T]) -> Iterator[T]:
    """The items; the parent process knows which one is being worked on."""
    for number, item in enumerate(items, 1):
        _ITEM.pack_into(_progress(), 0, number)
        yield item


def _sized(argument: Any) -> Iterable[Any]:
    items = argument if isinstance(argument, list | tuple) else [argument]
    return (item for item in items if isinstance(item, str | bytes))


_PROGRESS: list[mmap.mmap] = []


def _progress() -> mmap.mmap:
    if not _PROGRESS:
        _PROGRESS.append(mmap.mmap(int(sys.argv[1]), mmap.PAGESIZE))
    return _PROGRESS[0]


def _shared_item(number: int) -> None:
    _ITEM.pack_into(_progress(), 0, number)


def _limit_time(seconds: float) -> None:
    """Let the system end this process if it uses more CPU time than this from now on; SIGPROF has no handler."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _write(stream: IO[bytes], value: Any) -> None:
    """Send a value as JSON; a text may have lone surrogates."""
    write_message(stream, {}, [json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")])


def _read(stream: IO[bytes]) -> Any:
    message = read_message(stream)
    if message is None:
        raise EOFError
    return json.loads(message.bodies[0].decode("utf-8", "surrogatepass"))
