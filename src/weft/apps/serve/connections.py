"""The connections of a service: limits on the size of request heads, and on the time that nothing happens."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from weft.apps.serve.security import head_too_large
from weft.apps.serve.settings import ServeSettings
from weft.runtime.processes import to_json

LINGER_SECONDS = 2.0
"""Time in which a client that still sends may read why it was refused; what it sends is discarded."""
MIXIN: Any = object


class BoundedProtocol(MIXIN):
    """Closes a connection on which no request arrives, or no answer is read, in time, or whose head is too large.

    httptools collects a head (and the trailers of a chunked body) of any size. So the bytes are counted that
    arrive in a row without completing a head and without being part of a body. `security.Guard` checks the heads
    that are complete.
    """

    seconds: float
    max_head: int

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.clock = self.loop.call_later(self.seconds, self._close_if_silent)
        self.write_clock: asyncio.TimerHandle | None = None
        self.incomplete = 0
        """Bytes since the last complete head or part of a body."""
        self.is_refused = False

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
        super().send_400_response(msg)

    def _refuse_head(self) -> None:
        """Answer 431; the connection closes when the client has had the time to read that."""
        if self.is_refused or self.transport.is_closing():
            return
        self.is_refused = True
        if self._waits():  # else an answer is being sent already
            self.transport.write(head_refusal(self.max_head))
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
        self.write_clock = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.write_clock is not None:
            self.write_clock.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self.clock.cancel()
        if self.write_clock is not None:
            self.write_clock.cancel()
        super().connection_lost(exc)


def protocol_class(settings: ServeSettings) -> type[asyncio.Protocol]:
    """uvicorn's protocol (httptools or h11) with the limits of a service."""
    limits = {"seconds": settings.body_timeout, "max_head": settings.max_head}
    return type("ServiceProtocol", (BoundedProtocol, AutoHTTPProtocol), limits)


def head_refusal(limit: int) -> bytes:
    """The whole response to a request whose head is too large."""
    body = to_json({"error": head_too_large(limit)})
    head = (
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
