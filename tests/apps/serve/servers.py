"""A service that runs while a test does, and what tests ask of it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from weft.apps.serve.app import Service
from weft.apps.serve.server import Server, address, listen
from weft.apps.serve.settings import ServeSettings

PATIENCE = 300.0
"""Seconds; a busy machine proves nothing."""
UNHURRIED = dict.fromkeys(("deadline", "max_wait", "body_timeout", "read_timeout", "hang_timeout"), 86_400.0)
"""Settings of a service that refuses and ends nothing for taking long: the machine may be busy, or stand still."""


class Running(NamedTuple):
    """A service that answers."""

    url: str
    service: Service
    server: Server
    loop: asyncio.AbstractEventLoop
    client: httpx.Client

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def translate(self, text: Any, **body: Any) -> list[dict[str, Any]]:
        response = self.post("/api/translate", text=text, **body)
        assert response.status_code == 200, response.text
        return response.json()["translations"]

    def events(self, path: str = "/api/translate/stream", **body: Any) -> list[tuple[str, Any]]:
        with self.client.stream("POST" if body else "GET", path, json=body or None) as response:
            assert response.status_code == 200, response.read()
            return read_events(response)

    def error(self, status: int, path: str, **body: Any) -> str:
        """The sentence with which a request is refused."""
        response = self.client.post(path, json=body) if body else self.client.get(path)
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/json"
        [(name, sentence)] = response.json().items()
        assert name == "error" and "\n" not in sentence
        return sentence

    def metric(self, name: str) -> float:
        """The sum of a metric over all labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def read_events(response: httpx.Response) -> list[tuple[str, Any]]:
    """The server-sent events of a response."""
    return [parse_event(block) for block in response.read().decode().split("\n\n") if block]


def parse_event(block: str) -> tuple[str, Any]:
    first, second = block.split("\n")
    return first.removeprefix("event: "), json.loads(second.removeprefix("data: "))


@contextmanager
def running_server(service: Service, *, ready: bool = True) -> Iterator[Running]:
    """Serve in a thread, on a free port; ``ready``: wait until the models are loaded."""
    settings = service.guard.settings.model_copy(update={"port": 0})
    bound = listen(settings)
    server = Server(service, settings)
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve([bound])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    url = address(bound)
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        try:
            if ready:
                wait_for(lambda: client.get("/ready").status_code == 200)
            yield Running(url, service, server, loops[0], client)
        finally:
            server.should_exit = server.force_exit = True  # connections that tests have left open are not waited for
            thread.join(PATIENCE)
    assert not thread.is_alive(), "the service did not end"


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def settings(**changes: Any) -> ServeSettings:
    """Settings of a service for tests; those that are about time say how long."""
    return ServeSettings(device="cpu", threads=1, **{**UNHURRIED, **changes})


def raw_request(running: Running, path: str, body: Any, *, cut: int = 0) -> socket.socket:
    """A connection on which a request was sent, but for its last ``cut`` bytes; close it to leave."""
    content = json.dumps(body).encode()
    url = httpx.URL(running.url)
    connection = socket.create_connection((url.host, url.port), timeout=PATIENCE)
    head = f"POST {path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
    connection.sendall(request[: len(request) - cut])
    return connection
