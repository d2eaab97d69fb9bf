"""``weft serve`` under requests, its worker killed or the service signaled: a kind of round of tools/soak.py.

Three clients on this machine send a bounded number of requests: translations, lists of them, streams, scores, and
requests that must be refused. Every answer is either the output of `weft translate` (`weft score`), or an error of one
sentence with its own status. A killed worker is replaced; SIGTERM ends the service with exit code 0 within
`END_SECONDS`, and only then may connections be refused. No process and no traceback is left.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from soak_processes import BrokenPromiseError, processes_of, run, wait_until

CLIENTS = 3
REQUESTS = 40
"""Requests per client."""
READY_SECONDS = 120.0
END_SECONDS = 60.0
"""drain_timeout, and the time for the worker to end."""
SCORE_TOLERANCE = 1e-3
CODES = {signal.SIGTERM: 0, signal.SIGINT: 130, signal.SIGHUP: 129}
"""The exit codes of a service that was told to end."""
BAD_REQUESTS: list[tuple[str, Any]] = [
    ("/api/translate", {"text": "a b", "search": {"size": 1_000}}),
    ("/api/translate", {"text": "a b", "beam": 3}),
    ("/api/translate", {"text": "a b", "model": "another"}),
    ("/api/translate", {"text": "a " * 9_000}),
    ("/api/translate", ["a b"]),
    ("/api/translate/stream", {"text": " "}),
    ("/api/score", {"pairs": [["a b"]]}),
    ("/api/nothing", {}),
]


class ServiceRounds:
    """Rounds of ``weft serve`` on one run."""

    name = "serve"

    def __init__(self, model: Path, sources: Path) -> None:
        self.model = model
        self.texts = sorted(set(sources.read_text("utf-8").splitlines()))[:60]
        self.outputs: dict[str, str] = {}
        self.greedy_outputs: dict[str, str] = {}
        self.scores: dict[str, float] = {}

    def prepare(self, folder: Path) -> None:
        """Compute the expected answers with `weft translate` and `weft score`."""
        folder.mkdir(parents=True)
        sources, pairs = folder / "sources.txt", folder / "pairs.tsv"
        sources.write_text("".join(f"{text}\n" for text in self.texts), "utf-8")
        for outputs, options in ((self.outputs, []), (self.greedy_outputs, ["--search", "greedy"])):
            lines = self._lines("translate", sources, *options)
            outputs.update(zip(self.texts, lines, strict=True))
        pairs.write_text("".join(f"{text}\t{text[::-1]}\n" for text in self.texts), "utf-8")
        self.scores.update(zip(self.texts, map(float, self._lines("score", pairs)), strict=True))

    def _lines(self, command: str, *arguments: str | Path) -> list[str]:
        ended = run([command, str(self.model), *map(str, arguments), "--device", "cpu"])
        if ended.code != 0:
            raise BrokenPromiseError(f"{command}: exit code {ended.code}: {ended.stderr}")
        return ended.stdout.splitlines()

    def play(self, folder: Path, generator: random.Random, disturbance: str) -> str:
        """Serve, disturb and end; how many requests were answered and refused."""
        service = Service(self.model, folder)
        clients = [Client(self, service, generator.randrange(2**32)) for _ in range(CLIENTS)]
        try:
            if disturbance == "signal" and generator.random() < 0.2:
                time.sleep(generator.uniform(0, 3))  # while it starts
            else:
                service.wait_until_ready()
                for client in clients:
                    client.start()
                time.sleep(generator.uniform(0, 1))
                if disturbance == "kill":
                    self._kill_workers(service, generator)
            by = generator.choice(list(CODES)) if disturbance == "signal" else signal.SIGTERM
            if disturbance == "kill":
                _join(clients)
                self._check_recovered(service)
            service.end(by)
            _join(clients)
        finally:
            service.kill()
        for problem in (problem for client in clients for problem in client.problems):
            raise BrokenPromiseError(problem)
        statuses = [status for client in clients for status in client.statuses]
        answered = statuses.count(200)
        return f"{answered} requests answered, {len(statuses) - answered} refused"

    def _kill_workers(self, service: Service, generator: random.Random) -> None:
        for _ in range(generator.randint(1, 2)):
            for worker in service.workers():
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(generator.uniform(0, 4))

    def _check_recovered(self, service: Service) -> None:
        service.wait_until_ready()
        client = Client(self, service, 0)
        for request in (client.translate, client.score, client.stream):
            if request() != 200:
                raise BrokenPromiseError("does not recover: a request was refused after its worker was replaced")


class Service:
    """A process of ``weft serve``."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "serve.log"
        self.told_to_end = False
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "weft", "serve", str(model), "--port", "0", "--device", "cpu"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def messages(self) -> str:
        return self.log.read_text("utf-8", "replace")

    @property
    def port(self) -> int | None:
        """Known once it listens."""
        match = re.search(r"at http://127\.0\.0\.1:(\d+)/ ", self.messages())
        return int(match[1]) if match else None

    def workers(self) -> list[int]:
        return [process for process in processes_of(str(self.folder)) if process != self.process.pid]

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            if self.process.poll() is not None:
                raise BrokenPromiseError(f"ended unexpectedly: exit code {self.process.returncode}: {self.messages()}")
            return self.port is not None and self.request("GET", "/ready")[0] == 200

        wait_until(is_ready, READY_SECONDS, "not ready: /ready is not answered with 200")

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, str, bytes]:
        """Status, content type and body of an answer."""
        assert self.port is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_SECONDS)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.headers.get_content_type(), response.read()
        finally:
            connection.close()

    def end(self, by: int) -> None:
        """Signal it, and check how it ends."""
        name, served = signal.Signals(by).name, self.port is not None
        self.told_to_end = True
        self.process.send_signal(by)
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrokenPromiseError(f"hung: {END_SECONDS:g} s after {name}: {self.messages()}") from None
        if code != CODES[signal.Signals(by)] and (served or code not in (-by, 128 + by)):
            raise BrokenPromiseError(f"wrong exit code: {code} after {name}: {self.messages()}")
        if "Traceback" in self.messages():
            raise BrokenPromiseError(f"traceback: {self.messages()[-2000:]}")
        others = [line for line in self.messages().splitlines() if not line.startswith("weft: ")]
        if others:
            raise BrokenPromiseError(f"not a message of weft: {others}")
        wait_until(lambda: not processes_of(str(self.folder)), 2.0, f"processes left: {self.messages()}")

    def kill(self) -> None:
        """Kill the processes that are left, so that rounds do not disturb each other."""
        for process in {self.process.pid, *processes_of(str(self.folder))}:
            if process != self.process.pid or self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        self.process.wait()


class Client(threading.Thread):
    """Sends requests, one after another, and compares the answers."""

    def __init__(self, rounds: ServiceRounds, service: Service, seed: int) -> None:
        super().__init__(daemon=True)
        self.rounds, self.service = rounds, service
        self.random = random.Random(seed)
        self.statuses: list[int] = []
        self.problems: list[str] = []

    def run(self) -> None:
        kinds = [self.translate, self.translate_several, self.translate_greedily, self.score, self.stream, self.refused]
        for _ in range(REQUESTS):
            try:
                self.statuses.append(self.random.choice(kinds)())
            except BrokenPromiseError as failure:
                self.problems.append(str(failure))
                return
            except (OSError, http.client.HTTPException) as error:
                if not self.service.told_to_end:
                    self.problems.append(f"connection lost: {type(error).__name__}: {error}")
                return

    def translate(self) -> int:
        text = self.random.choice(self.rounds.texts)
        return self._translate(text, [self.rounds.outputs[text]])

    def translate_several(self) -> int:
        texts = self.random.choices(self.rounds.texts, k=self.random.randint(0, 7))
        return self._translate(texts, [self.rounds.outputs[text] for text in texts])

    def translate_greedily(self) -> int:
        text = self.random.choice(self.rounds.texts)
        return self._translate(text, [self.rounds.greedy_outputs[text]], search={"kind": "greedy"})

    def _translate(self, text: str | list[str], expected: list[str], **more: Any) -> int:
        def check(answer: Any) -> bool:
            return [translation["text"] for translation in answer["translations"]] == expected

        return self._send("/api/translate", {"text": text, **more}, check)

    def score(self) -> int:
        text = self.random.choice(self.rounds.texts)

        def check(answer: Any) -> bool:
            [score] = answer["scores"]
            return abs(score["log_probability"] - self.rounds.scores[text]) < SCORE_TOLERANCE

        return self._send("/api/score", {"pairs": [[text, text[::-1]]]}, check)

    def stream(self) -> int:
        text = self.random.choice(self.rounds.texts)
        status, kind, content = self.service.request("POST", "/api/translate/stream", {"text": text})
        if status != 200:
            return check_refusal(status, kind, content)
        blocks = [block.split("\n") for block in content.decode().split("\n\n") if block]
        events = [(block[0].removeprefix("event: "), json.loads(block[1].removeprefix("data: "))) for block in blocks]
        name, last = events[-1] if events else ("nothing", {})
        if name == "error":
            return check_refusal(503, "application/json", json.dumps(last).encode())
        if name != "done" and self.service.told_to_end:
            return 503
        if name != "done" or last["translation"]["text"] != self.rounds.outputs[text]:
            raise BrokenPromiseError(f"wrong result: the stream of {text!r} ends with {name} {last}")
        return status

    def refused(self) -> int:
        path, body = self.random.choice(BAD_REQUESTS)
        return self._send(path, body, lambda answer: False)

    def _send(self, path: str, body: Any, is_right: Callable[[Any], bool]) -> int:
        """Send a request and check the answer; its status."""
        status, kind, content = self.service.request("POST", path, body)
        if status != 200:
            return check_refusal(status, kind, content)
        if not is_right(json.loads(content)):
            raise BrokenPromiseError(f"wrong result: {path} {json.dumps(body)[:200]}: {content.decode()[:1000]}")
        return status


def check_refusal(status: int, kind: str, content: bytes) -> int:
    """Whether a refusal is a sentence; its status."""
    try:
        [(name, sentence)] = json.loads(content).items()
    except (ValueError, AttributeError):
        name, sentence = "", ""
    expected = status in (400, 404, 405, 413, 422, 429, 503)
    if not expected or kind != "application/json" or name != "error" or not sentence or "\n" in sentence:
        raise BrokenPromiseError(f"not an error of one sentence: {status} {kind} {content[:500]!r}")
    return status


def _join(clients: list[Client]) -> None:
    for client in clients:
        if client.ident is not None:
            client.join(2 * READY_SECONDS)
            if client.is_alive():
                raise BrokenPromiseError("hung: a request is neither answered nor refused")
