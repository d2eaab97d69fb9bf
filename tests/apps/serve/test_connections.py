"""Connections: heads without end, and connections that hang."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from uvicorn.server import ServerState

from apps.serve.servers import PATIENCE, Running
from weft.apps.serve import connections
from weft.apps.serve.connections import protocol_class
from weft.apps.serve.settings import ServeSettings


class Transport:
    """A connection whose peer does nothing."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_extra_info(self, name: str) -> None:
        return None


def test_connections_come_to_an_end(running: Running) -> None:
    """Where nothing arrives, or half a request, or nothing is read: closed when the time is up, and not before."""

    async def test() -> None:
        settings = ServeSettings(body_timeout=0.05, read_timeout=0.05)
        of_settings = protocol_class(settings)

        def connect() -> tuple[Any, Transport]:
            transport = Transport()
            protocol = of_settings(running.server.config, ServerState(), {})
            protocol.connection_made(transport)
            return protocol, transport

        _, silent = connect()
        reader, unread = connect()
        reader.cycle = SimpleNamespace(response_complete=False)
        reader.pause_writing()
        slow, read_late = connect()
        slow.cycle = SimpleNamespace(response_complete=False)
        slow.pause_writing()
        slow.resume_writing()
        again, half = connect()  # has been answered, and begins another request
        again.clock.cancel()
        again.cycle = SimpleNamespace(response_complete=True)
        again.data_received(b"GET /health HT")
        await asyncio.sleep(0.2)
        assert silent.aborted and unread.aborted and half.aborted and not read_late.aborted

    asyncio.run(test())


CHUNKED = b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
"""A request whose body is empty, and whose trailers begin."""


def flood(running: Running, begin: bytes, part: bytes, *, parts: int = 4096) -> bytes:
    """The answer to a request that begins so and goes on with many parts."""
    url = httpx.URL(running.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE) as connection:
        connection.sendall(begin)
        try:
            for _ in range(parts):
                connection.sendall(part)
        except OSError:  # the service has closed the connection
            pass
        try:
            return connection.recv(65536)
        except OSError:
            return b""


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 65536),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"X: a\r\n" * 10000),
        (b"GET /", b"a" * 65536),
        (
            b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X: a\r\n" * 10000,
        ),
        (b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a" * 65536),
    ],
    ids=["a long field", "many fields", "a long address", "many trailers", "a long trailer"],
)
def test_heads_without_end(running: Running, begin: bytes, part: bytes) -> None:
    """256 MB: refused after the first parts; memory does not grow, and others are answered."""
    before = peak_memory()
    answer = flood(running, begin, part)
    assert peak_memory() - before < 30_000, "kilobytes"
    assert running.translate("a b")
    if not begin.startswith(CHUNKED):
        assert answer.startswith(b"HTTP/1.1 431 ") and b"the limit" in answer


def peak_memory() -> int:
    """The largest memory of this process, in kilobytes; the service is a thread of it."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_heads_within_the_limits(running: Running) -> None:
    """A head in small parts, and a second request after a large body on the same connection."""
    url = httpx.URL(running.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE) as connection:
        for part in (b"GET /health HT", b"TP/1.1\r\nHost: local", b"host\r\n", b"X: " + b"a" * 60_000, b"\r\n\r\n"):
            connection.sendall(part)
        assert b" 200 " in connection.recv(65536)
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        for _ in range(2):
            assert client.post("/api/translate", json={"text": ["a b"] * 999, "n_best": 1}).status_code in (200, 429)
        head = client.head("/health")
        assert head.status_code == 200 and head.content == b"" and head.headers["content-length"] == "15"
        assert client.head("/api/training/recurrent/stream").status_code == client.get("/health").status_code


def test_heads_where_h11_reads_them(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol

    monkeypatch.setattr(connections, "AutoHTTPProtocol", H11Protocol)
    written: list[bytes] = []

    class Written(Transport):
        def write(self, data: bytes) -> None:
            written.append(data)

        def can_write_eof(self) -> bool:
            return False

        def close(self) -> None:
            return None

    async def test() -> None:
        config = Config(running.service, h11_max_incomplete_event_size=1000)
        config.load()
        protocol: Any = protocol_class(ServeSettings(max_head=1000))(config, ServerState(), {})
        protocol.connection_made(Written())
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000)
        protocol.data_received(b"a" * 1000)
        protocol.connection_lost(None)

    asyncio.run(test())
    assert len(written) == 1 and written[0].startswith(b"HTTP/1.1 431 ")


class Connection:
    """One of a client; busy or idle."""

    def __init__(self, address: str, *, idle: bool) -> None:
        self.address = address
        self.idle = idle

    def is_idle(self) -> bool:
        return self.idle


def test_the_oldest_idle_connection_of_the_largest_client_is_closed() -> None:
    opened = connections.OpenConnections(3)
    first, second, third = (Connection("a", idle=idle) for idle in (False, True, True))
    assert [opened.add(one) for one in (first, second, third)] == [None] * 3
    fourth = Connection("b", idle=True)
    assert opened.add(fourth) is second
    opened.remove(second)
    opened.remove(second)
    assert opened.count == 3
    opened.remove(fourth)
    assert list(opened.by_client) == ["a"]


def test_where_none_is_idle_a_few_more_are_accepted() -> None:
    """For /health; then new ones are closed."""
    opened = connections.OpenConnections(2)
    for _ in range(2 + connections.RESERVE):
        assert opened.add(Connection("a", idle=False)) is None
    last = Connection("b", idle=True)
    assert opened.add(last) is last


def test_what_is_not_http_is_answered_in_json(running: Running) -> None:
    url = httpx.URL(running.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE) as connection:
        connection.sendall(b"bogus\r\n\r\n")
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b'{"error":"the request is not valid HTTP"}')


def test_health_is_answered_whatever_the_load(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beyond the limit are refused; those for the status are not."""
    monkeypatch.setattr(running.service.guard.active, "limit", 0)
    assert running.client.get("/health").json() == {"status": "ok"}
    assert running.client.get("/ready").status_code == 200 and running.client.get("/metrics").status_code == 200
    assert "requests are being answered" in running.error(429, "/api/models")
