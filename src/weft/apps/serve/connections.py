"""The connections of a service: limits on their number, the size of heads, and the time that nothing happens."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from weft.apps.serve.security import LINGER_SECONDS, head_too_large
from weft.apps.serve.settings import ServeSettings
from weft.runtime.processes import to_json

RESERVE = 50
"""Connections beyond `ServeSettings.max_connections`, when none is idle: for /health, /ready and /metrics."""
MIXIN: Any = object


class OpenConnections:
    """The connections of a service by the addresses of their clients.

    Beyond the limit, a new connection closes an idle one: the oldest of the client that has the most. If none is idle
    there, a few more are accepted; then new connections are closed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.by_client: dict[str, OrderedDict[Any, None]] = {}
        self.count = 0

    def add(self, connection: Any) -> Any:
        """Add a connection; the one to close for it: an idle one, itself, or none."""
        self.by_client.setdefault(connection.address, OrderedDict())[connection] = None
        self.count += 1
        if self.count <= self.limit:
            return None
        for connections in sorted(self.by_client.values(), key=len, reverse=True):
            for idle in connections:
                if idle is not connection and idle.is_idle():
                    return idle
        return connection if self.count > self.limit + RESERVE else None

    def remove(self, connection: Any) -> None:
        connections = self.by_client.get(connection.address, OrderedDict())
        if connection in connections:
            del connections[connection]
            self.count -= 1
        if not connections:
            self.by_client.pop(connection.address, None)


class BoundedProtocol(MIXIN):
    """Closes a connection on which no request arrives, or no answer is read, in time, or whose head is too large.

    httptools collects a head (and the trailers of a chunked body) of any size. So the bytes are counted that
    arrive in a row without completing a head and without being part of a body. `security.Guard` checks the heads
    that are complete.
    """

    seconds: float
    read_seconds: float
    max_head: int
    open_connections: OpenConnections

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.clock = self.loop.call_later(self.seconds, self._close_if_silent)
        self.write_clock: asyncio.TimerHandle | None = None
        self.incomplete = 0
        """Bytes since the last complete head or part of a body."""
        self.is_refused = False
        if (closed := self.open_connections.add(self)) is not None:
            self.open_connections.remove(closed)
            closed.transport.abort()

    def is_idle(self) -> bool:
        """Whether no request is being answered on this connection."""
        return self._waits()

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        self.incomplete += len(data)
        super().data_received(data)
        if hasattr(self, "parser") and self.incomplete > self.max_head:  # h11 has a limit of its own
            return self._refuse_head()
        if self._waits():  # the head of a request is not complete: that of the first, or of a later one
            if self.clock.cancelled():
                self.clock = self.loop.call_later(self.seconds, self._close_if_silent)
        else:
            self.clock.cancel()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.incomplete = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.incomplete = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.incomplete = 0

    def send_400_response(self, msg: str) -> None:
        if hasattr(self, "conn") and len(self.conn.trailing_data[0]) > self.max_head:
            return self._refuse_head()
        self.transport.write(refusal("400 Bad Request", "the request is not valid HTTP"))
        self.transport.close()

    def _refuse_head(self) -> None:
        """Answer 431; the connection closes when the client has had the time to read that."""
        if self.is_refused or self.transport.is_closing():
            return
        self.is_refused = True
        if self._waits():  # else an answer is being sent already
            self.transport.write(refusal("431 Request Header Fields Too Large", head_too_large(self.max_head)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_if_silent(self) -> None:
        if self._waits() and not self.transport.is_closing():
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.write_clock = self.loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.write_clock is not None:
            self.write_clock.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.remove(self)
        self.clock.cancel()
        if self.write_clock is not None:
            self.write_clock.cancel()
        super().connection_lost(exc)


def protocol_class(settings: ServeSettings) -> type[asyncio.Protocol]:
    """uvicorn's protocol (httptools or h11) with the limits of a service."""
    limits = {
        "seconds": settings.body_timeout,
        "read_seconds": settings.read_timeout,
        "max_head": settings.max_head,
        "open_connections": OpenConnections(settings.max_connections),
    }
    return type("ServiceProtocol", (BoundedProtocol, AutoHTTPProtocol), limits)


def refusal(status: str, message: str) -> bytes:
    """The whole response to what is not a request; after it the connection closes."""
    body = to_json({"error": message})
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
