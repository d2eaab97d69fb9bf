"""The service's end of a worker, with a made-up process."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.apps.serve import worker_process
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.worker_process import BUSY_PINGS, MISSED_PINGS, WorkerEndedError, WorkerProcess, cpu_seconds
from weft.runtime.processes import Message, read_message, to_json


class Pipe:
    """The standard input of a process."""

    def __init__(self) -> None:
        self.content = io.BytesIO()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.content.write(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def messages(self) -> list[dict[str, Any]]:
        self.content.seek(0)
        return [message.header for message in iter(lambda: read_message(self.content), None)]  # type: ignore[union-attr]


def run(test: Callable[[WorkerProcess, Any, list[Any]], Coroutine[Any, Any, None]]) -> None:
    """A test with a worker whose process runs, its pipe, and the events of its model."""

    async def with_worker() -> None:
        events: list[Any] = []
        worker = WorkerProcess({}, lambda name, body: events.append((name, body)))
        pipe = Pipe()
        worker.process = SimpleNamespace(stdin=pipe, returncode=None)  # type: ignore[assignment]
        await test(worker, pipe, events)

    asyncio.run(with_worker())


def test_answers_errors_and_events() -> None:
    async def test(worker: WorkerProcess, pipe: Pipe, events: list[Any]) -> None:
        steps: list[Any] = []
        answers = [worker.send({"op": "tokens", "queue": "batch"}, {"a": 1}) for _ in range(3)]
        number, streamed = worker.send({"op": "stream"}, {}, lambda name, body: steps.append((name, body)))
        assert [key for key, _ in answers] == [1, 2, 3] and number == 4
        assert [message["id"] for message in pipe.messages()] == [1, 2, 3, 4]
        worker._receive(Message({"event": "ready"}, [b"{}"]))
        assert events == [("ready", b"{}")]
        worker._receive(Message({"id": 2}, [b"2"]))
        worker._receive(Message({"id": 1, "error": [422, "no"]}, []))
        worker._receive(Message({"id": 3, "error": [503, "later"]}, []))
        worker._receive(Message({"id": 4, "event": "step"}, [b"s"]))
        worker._receive(Message({"id": 9, "event": "step"}, [b"s"]))
        worker._receive(Message({"id": 4}, []))
        worker._receive(Message({"id": 4, "event": "step"}, [b"late"]))
        assert answers[1][1].result().bodies == [b"2"] and streamed.done() and steps == [("step", b"s")]
        for (_, answer), expected in (
            (answers[0], (422, "no", {})),
            (answers[2], (503, "later", {"Retry-After": "5"})),
        ):
            assert isinstance(error := answer.exception(), ServiceError)
            assert (error.status, error.message, error.headers) == expected
        assert not worker.answers and not worker.streams

    run(test)


def test_what_is_cancelled_is_not_answered() -> None:
    async def test(worker: WorkerProcess, pipe: Pipe, events: list[Any]) -> None:
        steps: list[Any] = []
        number, answer = worker.send({"op": "stream"}, {}, lambda name, body: steps.append(name))
        answer.cancel()
        worker.cancel(number)
        worker._receive(Message({"id": number, "event": "step"}, [b"s"]))
        worker._receive(Message({"id": number}, []))
        worker.cancel(number)  # it has been answered
        other, _ = worker.send({"op": "translate"}, {})
        worker.cancel(other, [0, 2])
        assert not steps
        cancelled = [(message["id"], message["rows"]) for message in pipe.messages() if message["op"] == "cancel"]
        assert cancelled == [(number, [-1]), (other, [0, 2])]

    run(test)


def test_a_process_that_ends() -> None:
    """Its model is told first; those who wait can then send to another worker."""

    async def test(worker: WorkerProcess, pipe: Pipe, events: list[Any]) -> None:
        (_, waiting), (_, left) = worker.send({"op": "a"}, {}), worker.send({"op": "b"}, {})
        left.cancel()
        worker._end()
        assert events == [("ended", b"{}")] and worker.ended
        assert isinstance(waiting.exception(), WorkerEndedError) and not worker.answers
        assert isinstance(worker.send({"op": "c"}, {})[1].exception(), WorkerEndedError)
        assert [message["op"] for message in pipe.messages()] == ["a", "b"]
        pipe.close()
        worker._write(b"nothing")
        assert not pipe.content.getvalue().endswith(b"nothing")

    run(test)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_worker_is_stopped_by_a_frame_and_killed_if_that_takes_too_long(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "STOP_SECONDS", 0.01 if hangs else 60.0)
    killed: list[bool] = []

    async def test(worker: WorkerProcess, pipe: Pipe, events: list[Any]) -> None:
        async def wait() -> int:
            if hangs:
                await asyncio.Event().wait()
            return 0

        worker.process = SimpleNamespace(stdin=pipe, returncode=None, wait=wait, kill=lambda: killed.append(True))  # type: ignore[assignment]
        await worker.stop()
        assert pipe.messages() == [{"op": "stop"}] and pipe.closed
        assert bool(killed) == hangs
        worker.process.returncode = 0  # type: ignore[union-attr, misc]
        await worker.stop()
        assert len(pipe.messages()) == 1

    run(test)


def test_a_worker_that_was_never_started() -> None:
    async def test() -> None:
        worker = WorkerProcess({}, lambda name, body: None)
        assert isinstance(worker.send({"op": "a"}, {})[1].exception(), WorkerEndedError)
        await worker.stop()
        assert to_json(worker.config) == b"{}"

    asyncio.run(test())


@pytest.mark.parametrize(("computes", "intervals"), [(False, MISSED_PINGS), (True, BUSY_PINGS)])
def test_a_worker_that_computes_has_longer_to_answer(
    computes: bool, intervals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an overloaded machine it may be late; one that is stopped computes nothing."""
    seconds = itertools.count(0.0, 10.0 if computes else 0.0)
    asked: list[int] = []

    def cpu_seconds(pid: int) -> float:
        asked.append(pid)
        return next(seconds)

    monkeypatch.setattr(worker_process, "cpu_seconds", cpu_seconds)

    async def test(worker: WorkerProcess, pipe: Pipe, events: list[Any]) -> None:
        killed: list[bool] = []
        worker.process = SimpleNamespace(stdin=pipe, returncode=None, pid=7, kill=lambda: killed.append(True))  # type: ignore[assignment]
        worker.hang_timeout, worker.is_loaded = 0.001, True
        await worker._heartbeat()
        assert killed == [True] and worker.is_hung
        assert len(asked) == 1 + intervals, "one when the ping is sent"

    run(test)


def test_the_cpu_time_of_a_process() -> None:
    own = cpu_seconds(os.getpid())
    assert own > 0 or not Path("/proc").is_dir()
    assert cpu_seconds(2**30) == 0.0
