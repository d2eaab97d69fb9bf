"""The server process: uvicorn and signals."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from weft.apps.serve.app import Service
from weft.apps.serve.connections import RESERVE, protocol_class
from weft.apps.serve.memory import trim_heap
from weft.apps.serve.settings import ServeSettings
from weft.errors import DataError

FILES = 256
"""Open files beside the connections: pipes of workers, logs, modules."""
NOTIFY_SECONDS = 5
"""Interval at which systemd is told that the service is alive."""


async def alive() -> None:
    notify_systemd("WATCHDOG=1")
    trim_heap()  # of large requests and answers


def notify_systemd(state: str) -> None:
    """Tell systemd the state of the service (sd_notify), where it has started the service and wants to know."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.setblocking(False)
        notified.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


class Server(uvicorn.Server):
    """On SIGTERM, SIGINT or SIGHUP: not ready, finish running requests, then end. A second signal ends immediately."""

    def __init__(self, service: Service, settings: ServeSettings) -> None:
        config = uvicorn.Config(
            service,
            host=settings.host,
            port=settings.port,
            http=protocol_class(settings),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=settings.max_head,
            timeout_graceful_shutdown=int(settings.drain_timeout),
            callback_notify=alive,
            timeout_notify=NOTIFY_SECONDS,
        )
        super().__init__(config)
        self.service = service
        self.settings = settings
        self.signals: list[int] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but the signal is not raised again: a service that was told to end has done its work.

        SIGHUP as well, unless it is ignored (nohup): an exception that it raises would end whatever the event loop is
        doing, or be lost there.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        handlers = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.models.draining = True
        self.force_exit = bool(self.signals)
        self.should_exit = True
        self.signals.append(sig)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As in uvicorn, but after SIGTERM load balancers see that the service is not ready before the port closes."""
        notify_systemd("STOPPING=1")
        end = time.monotonic() + self.settings.close_delay
        while self.signals == [signal.SIGTERM] and time.monotonic() < end:
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notify_systemd("READY=1")

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.models.start()
        try:
            await super().serve(sockets)
        finally:
            self.service.models.draining = True
            await self.service.stop()


def listen(settings: ServeSettings) -> socket.socket:
    """The socket of a service, bound; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        raise DataError(
            f"--host {settings.host} --port {settings.port}: {reason}; choose another --port (0: any that is free)"
        ) from None
    bound.listen(2048)
    bound.set_inheritable(False)
    return bound


def address(bound: socket.socket) -> str:
    """The address of a service, for a browser."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def allow_connections(count: int) -> None:
    """Raise the limit of open files as far as the system allows, so that connections do not exhaust it."""
    with suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = count + RESERVE + FILES
        if soft != resource.RLIM_INFINITY and soft < needed:
            raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))


def set_up_logging(settings: ServeSettings) -> None:
    """Requests and errors on stderr, never texts."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("weft: %(message)s"))
    for name in ("weft.apps.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if settings.log != "errors" and name == "weft.apps.serve" else logging.ERROR)


def run(
    service: Service, settings: ServeSettings, bound: socket.socket, on_start: Callable[[Server], None]
) -> list[int]:
    """Serve until a signal arrives, or ``on_start`` sets ``should_exit``; the signals that did."""
    set_up_logging(settings)
    allow_connections(settings.max_connections)
    server = Server(service, settings)
    factory = server.config.get_loop_factory()

    async def serve() -> None:
        asyncio.get_running_loop().call_soon(on_start, server)
        await server.serve([bound])

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve())
    return server.signals
