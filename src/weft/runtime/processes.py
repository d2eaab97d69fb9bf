"""Child processes: a fresh Python that imports what its parent can, ends with it, and exchanges messages through pipes.

A message is a header and any number of bodies:

    4 bytes   the length of the header, big-endian
    header    a JSON object; "sizes": the lengths of the bodies
    bodies    bytes, whose meaning is agreed by both ends

Bodies are passed on as they are: a service sends the results of a worker to its clients without reading them.

Children that use it: `weft.text.isolation` (work that may never end), `weft.data.store.worker_processes` (parallel
map), `weft.apps.serve.worker` (the models of a service), `weft.apps.tuning.worker` (jobs of a tuning run).
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from asyncio import StreamReader

LENGTH = struct.Struct(">I")
PARENT_SECONDS = 0.25
"""Interval at which a child checks whether its parent is still running."""


def core_count() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Starting and ending


def child_environment(**variables: str) -> dict[str, str]:
    """The environment of a Python that can import what this one can, with these variables in addition."""
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def message_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The streams of messages from and to a parent process. Printed text goes to stderr, not between messages."""
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, outgoing


def when_parent_ends(parent: int, call: Callable[[], None]) -> None:
    """Call a function in a thread of a child process soon after the process with this id has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        call()

    threading.Thread(target=watch, name="weft-parent", daemon=True).start()


def end_with_parent(parent: int, before: Callable[[], None] = lambda: None) -> None:
    """End this process, whatever it does, soon after its parent process has ended; ``before`` is called first."""

    def end() -> None:
        with suppress(Exception):
            before()
        os._exit(1)

    when_parent_ends(parent, end)


# Messages


class Message(NamedTuple):
    """A header and its bodies."""

    header: dict[str, Any]
    bodies: list[bytes]

    def payload(self) -> Any:
        """The value of the only body, which is JSON."""
        return json.loads(self.bodies[0])


def to_json(value: Any) -> bytes:
    """JSON without line breaks. Numbers that are not finite are an error."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def encode_message(header: dict[str, Any], bodies: Sequence[bytes] = ()) -> bytes:
    """A message as bytes."""
    encoded = to_json({**header, "sizes": [len(body) for body in bodies]})
    return b"".join([LENGTH.pack(len(encoded)), encoded, *bodies])


def write_message(stream: IO[bytes], header: dict[str, Any], bodies: Sequence[bytes] = ()) -> None:
    """Send a message and flush."""
    stream.write(encode_message(header, bodies))
    stream.flush()


def read_message(stream: IO[bytes]) -> Message | None:
    """The next message; None at the end, even if it is within a message."""
    try:
        header = json.loads(_read_exactly(stream, LENGTH.unpack(_read_exactly(stream, LENGTH.size))[0]))
        return Message(header, [_read_exactly(stream, size) for size in header.pop("sizes")])
    except EOFError:
        return None


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


async def receive_message(stream: StreamReader) -> Message | None:
    """`read_message` without blocking."""
    try:
        length = LENGTH.unpack(await stream.readexactly(LENGTH.size))[0]
        header = json.loads(await stream.readexactly(length))
        return Message(header, [await stream.readexactly(size) for size in header.pop("sizes")])
    except (EOFError, ConnectionError):  # asyncio.IncompleteReadError is an EOFError
        return None
