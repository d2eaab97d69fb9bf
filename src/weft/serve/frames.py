"""What a service and its workers send each other through pipes: a header and any number of bodies, all of them JSON.

    4 bytes   the length of the header
    header    an object; "sizes": the lengths of the bodies
    bodies

Bodies are passed on as they are: a service sends the results of a worker to its clients without reading them.
"""

from __future__ import annotations

import json
import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

LENGTH = struct.Struct(">I")


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]
    bodies: list[bytes]

    def payload(self) -> Any:
        """The value of the only body."""
        return json.loads(self.bodies[0])


def encode(header: dict[str, Any], bodies: Sequence[bytes] = ()) -> bytes:
    """A frame as bytes."""
    head = to_json({**header, "sizes": [len(body) for body in bodies]})
    return b"".join([LENGTH.pack(len(head)), head, *bodies])


def to_json(value: Any) -> bytes:
    """JSON without line breaks. Numbers that are not finite are an error."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def read(stream: BinaryIO) -> Frame | None:
    """The next frame; None at the end."""
    if len(start := stream.read(LENGTH.size)) < LENGTH.size:
        return None
    header = json.loads(stream.read(LENGTH.unpack(start)[0]))
    return Frame(header, [stream.read(size) for size in header.pop("sizes")])


async def receive(stream: StreamReader) -> Frame | None:
    """The same without blocking."""
    try:
        length = LENGTH.unpack(await stream.readexactly(LENGTH.size))[0]
        header = json.loads(await stream.readexactly(length))
        return Frame(header, [await stream.readexactly(size) for size in header.pop("sizes")])
    except (IncompleteReadError, ConnectionError):
        return None
