"""A service as a process: signals under load, clients that hang, clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from apps.serve.servers import PATIENCE, Running, raw_request, wait_for
from weft.apps.serve import server
from weft.apps.serve.server import address, listen
from weft.apps.serve.settings import ServeSettings
from weft.errors import DataError


@pytest.fixture
def process(recurrent_run: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`weft serve` on a free port, and its address."""
    arguments = ["serve", str(recurrent_run), "--port", "0", "--device", "cpu"]
    arguments += ["--set", "threads=1", "--set", "hang_timeout=300"]  # a test stops the worker for a while
    with subprocess.Popen(
        [sys.executable, "-m", "weft", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # even where pytest runs under nohup
        env={**os.environ, "WEFT_NO_PROGRESS": "1", "PYTHONPATH": str(Path(server.__file__).parents[3])},
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        match = re.search(r"serving recurrent at (http://127\.0\.0\.1:\d+/)", first)
        assert match is not None, first + process.stderr.read()
        yield process, match[1]
        process.kill()


def count_requests(client: httpx.Client, state: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"weft_num_requests_{state}{{"))


@pytest.mark.parametrize(("name", "code", "last"), [("SIGTERM", 0, ""), ("SIGHUP", 129, "weft: interrupted\n")])
def test_a_signal_under_load(process: tuple[subprocess.Popen[str], str], name: str, code: int, last: str) -> None:
    """What was admitted is answered, nothing more is taken, and the exit code says why; no worker stays behind."""
    service, url = process
    with httpx.Client(base_url=url, timeout=PATIENCE) as client, ThreadPoolExecutor(8) as pool:
        assert service.stderr is not None
        assert service.stderr.readline() == "weft: 1 model ready\n"
        wait_for(lambda: client.get("/ready").status_code == 200)
        workers = [int(line) for line in Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)  # the first request is running until all others are waiting
        body = {"text": ["a b c d"] * 20}
        busy = pool.submit(httpx.post, f"{url}api/translate", json=body, timeout=PATIENCE)
        wait_for(lambda: count_requests(client, "running") == 1)
        answers = [pool.submit(httpx.post, f"{url}api/translate", json=body, timeout=PATIENCE) for _ in range(7)]
        wait_for(lambda: count_requests(client, "waiting") == 7)  # one that has not arrived may be refused
        service.send_signal(signal.Signals[name])
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        assert [answer.result().status_code for answer in answers] == [200] * 7
        assert busy.result().status_code == 200
    assert service.wait(PATIENCE) == code
    assert service.stderr.read() == last
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}health")
    for pid in workers:
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())


def test_not_ready_before_the_port_closes(process: tuple[subprocess.Popen[str], str]) -> None:
    """On SIGTERM a load balancer, which connects anew for each question, is told first."""
    service, url = process
    wait_for(lambda: httpx.get(f"{url}ready").status_code == 200)
    service.send_signal(signal.SIGTERM)
    statuses: list[int] = []
    with contextlib.suppress(httpx.TransportError):
        while True:
            statuses.append(httpx.get(f"{url}ready", timeout=PATIENCE).status_code)
    assert statuses.count(503) >= 2 and statuses == sorted(statuses)
    assert service.wait(PATIENCE) == 0


def test_clients_that_hang(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sends half a request, one nothing: both are closed in time, and others are answered meanwhile."""
    monkeypatch.setattr(
        running.service.guard, "settings", running.service.guard.settings.model_copy(update={"body_timeout": 0.3})
    )
    with raw_request(running, "/api/translate", {"text": "a b"}, cut=3) as half:
        assert running.translate("a b")
        half.settimeout(PATIENCE)
        assert b" 408 " in half.recv(4096)


def test_what_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it wants to know; a path, or a name that begins with @."""
    server.notify_systemd("READY=1")
    for name, bound in ((str(tmp_path / "notify"), str(tmp_path / "notify")), ("@weft-test", "\0weft-test")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(bound)
            systemd.settimeout(PATIENCE)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            server.notify_systemd("READY=1")
            asyncio.run(server.alive())
            assert [systemd.recv(100), systemd.recv(100)] == [b"READY=1", b"WATCHDOG=1"]
    server.notify_systemd("READY=1")  # nobody listens


def test_a_service_of_systemd(recurrent_run: Path, tmp_path: Path) -> None:
    """It says when it listens, that it is alive, and that it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        arguments = ["serve", str(recurrent_run), "--port", "0", "--device", "cpu", "--set", "close_delay=0"]
        environment = {**os.environ, "PYTHONPATH": str(Path(server.__file__).parents[3])}
        environment |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WEFT_NO_PROGRESS": "1"}
        with subprocess.Popen([sys.executable, "-m", "weft", *arguments], env=environment) as service:
            messages = [systemd.recv(100), systemd.recv(100)]
            service.terminate()
            while messages[-1] != b"STOPPING=1":
                messages.append(systemd.recv(100))
            assert service.wait(PATIENCE) == 0
    assert messages[0] == b"READY=1" and b"WATCHDOG=1" in messages


def test_ports(running: Running) -> None:
    with listen(ServeSettings(port=0)) as bound:
        port = bound.getsockname()[1]
        assert address(bound) == f"http://127.0.0.1:{port}/"
        assert bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)  # a service is started again at once
        with pytest.raises(DataError, match=f"--host 127.0.0.1 --port {port}: address already in use; choose another"):
            listen(ServeSettings(port=port))
    with listen(ServeSettings(host="0.0.0.0", port=0)) as bound:
        assert address(bound).startswith("http://127.0.0.1:")


@pytest.mark.parametrize(("log", "level"), [("errors", logging.ERROR), ("requests", logging.INFO)])
def test_requests_are_logged_unless_only_errors_are(monkeypatch: pytest.MonkeyPatch, log: Any, level: int) -> None:
    started: list[Any] = []

    class Ending:
        """A server that ends when it has started."""

        config = SimpleNamespace(get_loop_factory=lambda: None)

        def __init__(self, *_: Any) -> None:
            self.signals = [signal.SIGTERM]

        async def serve(self, sockets: list[Any]) -> None:
            await asyncio.sleep(0)
            started.append(sockets)

    monkeypatch.setattr(server, "Server", Ending)
    loggers = [logging.getLogger(name) for name in ("weft.apps.serve", "uvicorn.error")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    service: Any = None
    bound: Any = "socket"
    try:
        assert server.run(service, ServeSettings(log=log), bound, started.append) == [signal.SIGTERM]
        assert [logger.level for logger in loggers] == [level, logging.ERROR]
        assert [len(logger.handlers) for logger in loggers] == [1, 1] and not loggers[0].propagate
    finally:
        for logger, (handlers, propagate, old) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old)
    assert isinstance(started[0], Ending) and started[1] == ["socket"]
