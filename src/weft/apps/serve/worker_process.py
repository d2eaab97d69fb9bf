"""The service's end of a worker: starts the process, sends it messages and receives its answers."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.apps.serve.errors import ServiceError
from weft.runtime.processes import Message, child_environment, encode_message, receive_message, to_json

STREAM_LIMIT = 1 << 20
STOP_SECONDS = 5.0
MISSED_PINGS = 3
"""Intervals without an answer to a ping after which a worker counts as hung; an event loop that stalls, and reads no
answers meanwhile, adds one interval at most."""
BUSY_PINGS = 12
"""Intervals for a worker that is computing: on an overloaded machine its answer may be late, and a worker that is
stopped computes nothing."""
BUSY_SHARE = 0.02
"""Part of a core that a worker uses at least while it computes."""
EventHandler = Callable[[str, bytes], None]


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


class WorkerEndedError(Exception):
    """The process has ended before it answered."""


class WorkerProcess:
    """One process. It is not started again; a `ServedModel` makes another one."""

    def __init__(self, config: dict[str, Any], on_event: EventHandler, *, hang_timeout: float = 8.0) -> None:
        """``on_event``: called with the worker's reports on its model (ready, failed, examples) and on its own end.

        ``hang_timeout``: seconds after which a worker that does not answer pings is killed.
        """
        self.config = config
        self.hang_timeout = hang_timeout
        self.is_hung = False
        self.is_loaded = False
        self.has_answered_ping = True
        self.on_event = on_event
        self.process: asyncio.subprocess.Process | None = None
        self.numbers = itertools.count(1)
        self.answers: dict[int, asyncio.Future[Message]] = {}
        self.streams: dict[int, EventHandler] = {}
        self.ended = False

    async def run(self) -> int:
        """Start it and receive its messages until it ends; its exit code."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "weft.apps.serve.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=child_environment(),
            limit=STREAM_LIMIT,
            start_new_session=True,  # Ctrl-C is for the service, which ends its workers when they are done
        )
        assert self.process.stdout is not None
        self._write(encode_message({"op": "configure"}, [to_json(self.config)]))
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while (message := await receive_message(self.process.stdout)) is not None:
                self._receive(message)
        finally:
            heartbeat.cancel()
            self._end()
            if self.process.returncode is None:
                with suppress(ProcessLookupError):
                    self.process.kill()
        return await self.process.wait()

    async def _heartbeat(self) -> None:
        """Kill the process if it does not answer pings; while it loads for the first time, imports may block it."""
        missed, interval, used = 0, self.hang_timeout / (MISSED_PINGS + 1), 0.0
        while True:
            await asyncio.sleep(interval)
            if not self.is_loaded:
                continue
            assert self.process is not None
            before, used = used, cpu_seconds(self.process.pid)
            if self.has_answered_ping:
                missed, self.has_answered_ping = 0, False
                self._write(encode_message({"op": "ping"}))
                continue
            missed += 1
            computes = used - before > BUSY_SHARE * interval
            if missed >= (BUSY_PINGS if computes else MISSED_PINGS):
                self.is_hung = True
                with suppress(ProcessLookupError):
                    self.process.kill()
                return

    def _receive(self, message: Message) -> None:
        number, event = message.header.get("id"), message.header.get("event")
        if event == "pong":
            self.has_answered_ping = True
        elif number is None:
            self.is_loaded |= event == "ready"
            self.on_event(message.header["event"], message.bodies[0])
        elif event is not None:
            if number in self.streams:
                self.streams[number](event, message.bodies[0])
        elif (answer := self.answers.pop(number, None)) is not None:
            self.streams.pop(number, None)
            if answer.done():
                return
            if error := message.header.get("error"):
                answer.set_exception(ServiceError(*error, retry_after=5.0 if error[0] == 503 else None))
            else:
                answer.set_result(message)

    def _end(self) -> None:
        self.ended = True
        self.on_event("ended", b"{}")  # before those who wait are told, and ask again
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(WorkerEndedError())
        self.answers.clear()
        self.streams.clear()

    def send(
        self, header: dict[str, Any], payload: dict[str, Any], on_event: EventHandler | None = None
    ) -> tuple[int, asyncio.Future[Message]]:
        """Send a request; its number and its answer to come."""
        number = next(self.numbers)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self.process is None or self.ended:
            answer.set_exception(WorkerEndedError())
            return number, answer
        self.answers[number] = answer
        if on_event is not None:
            self.streams[number] = on_event
        self._write(encode_message({**header, "id": number}, [to_json(payload)]))
        return number, answer

    def cancel(self, number: int, rows: Sequence[int] = (-1,)) -> None:
        """Cancel these rows of a request; −1: all of them."""
        self.streams.pop(number, None)
        if number in self.answers:
            self._write(encode_message({"op": "cancel", "id": number, "rows": list(rows)}))

    def _write(self, data: bytes) -> None:
        assert self.process is not None and self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(data)

    async def stop(self) -> None:
        """End it: by a message that says so and the end of its input, and if that takes too long, by a signal.

        The end of the input alone may not arrive: a process forked in the meantime has inherited the pipe.
        """
        if self.process is None or self.process.returncode is not None:
            return
        assert self.process.stdin is not None
        self._write(encode_message({"op": "stop"}))
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
