"""/api/training: the logs of runs in training, line by line, and sample translations whenever the weights change."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.jobs import client_of, models_of
from weft.apps.serve.models import Models, ServedModel, modified
from weft.apps.serve.queueing import Job
from weft.apps.serve.schemas import PROBLEMS
from weft.apps.serve.streaming import EVENTS, EventResponse, event
from weft.runs.layout import RunFolder
from weft.runs.status import RunStatus
from weft.runtime.processes import to_json

MAX_STEPS = 2_000
"""Lines of steps that are sent of what was logged before."""
MAX_LOG = 64 << 20
"""Bytes at the end of a log that are read."""
SAMPLES = 4
EXAMPLES_SECONDS = 10.0
POLL_SECONDS = 0.5
STATE_POLLS = 4
"""Polls after which the state of a run is read again."""
router = APIRouter(prefix="/api/training", responses=PROBLEMS)


@router.get("")
async def runs(request: Request) -> dict[str, Any]:
    """The runs of this service, and where their training stands."""
    served = models_of(request).by_name.values()
    statuses = await asyncio.gather(*(asyncio.to_thread(status_record, model.run) for model in served))
    return {"runs": [{"name": model.name, **status} for model, status in zip(served, statuses, strict=True)]}


@router.get("/{name}/stream", response_class=StreamingResponse, responses=EVENTS)
async def watch(request: Request, name: str) -> StreamingResponse:
    """The log of a run so far and as it grows, and samples whenever its weights have changed."""
    model = models_of(request).get(name)
    events = training_events(models_of(request), model)
    return EventResponse(events, request.app.state.streams.enter(client_of(request)))


def status_record(run: Path) -> dict[str, Any]:
    status = RunStatus.read(run).record()
    return {key: status[key] for key in ("state", "step", "steps", "metric", "score", "problem")}


async def training_events(models: Models, model: ServedModel) -> AsyncGenerator[bytes, None]:
    """Server-sent events until training ends, the service ends or the client leaves."""
    log = LogReader(RunFolder(model.run).log)
    for line in await asyncio.to_thread(lambda: thinned(log.read())):  # a log may have many lines
        yield event("log", line)
    weights: float | None = None
    polls = 0
    while True:
        if polls % STATE_POLLS == 0:
            status = await asyncio.to_thread(status_record, model.run)
            changed = modified(model.run)
            if changed is not None and changed != weights:
                weights = changed
                yield event("samples", to_json(await samples(model, first=polls == 0, step=status["step"])))
            yield event("state", to_json(status))
            if status["state"] != "training" or models.draining:
                for line in await asyncio.to_thread(log.read):
                    yield event("log", line)
                yield event("end", to_json({"state": status["state"]}))
                return
        polls += 1
        await asyncio.sleep(POLL_SECONDS)
        for line in await asyncio.to_thread(log.read):
            yield event("log", line)


class LogReader:
    """The complete lines of a log that grows; a log that was shortened (by a resumed run) is read from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position: int | None = None
        self.rest = b""

    def read(self) -> list[bytes]:
        """The lines since the last call, as JSON; none of a link, which may lead out of the run folder."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                size = file.seek(0, 2)
                if self.position is None or size < self.position:
                    self.position, self.rest = max(size - MAX_LOG, 0), b""
                file.seek(self.position)
                content = file.read(size - self.position)
        except OSError:
            return []
        self.position += len(content)
        *lines, self.rest = (self.rest + content).split(b"\n")
        return list(valid(lines))


def valid(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The lines that are JSON objects; the first may be cut."""
    for line in lines:
        try:
            record = json.loads(line, parse_constant=lambda name: None)  # losses may be infinite
            if isinstance(record, dict):
                yield to_json(record)
        except (ValueError, RecursionError):
            continue


def thinned(lines: Sequence[bytes]) -> list[bytes]:
    """At most `MAX_STEPS` of the lines of steps, evenly, and all others."""
    steps = [index for index, line in enumerate(lines) if b'"event":"step"' in line]
    stride = -(-len(steps) // MAX_STEPS)
    left_out = {step for number, step in enumerate(steps) if stride > 1 and number % stride and step != steps[-1]}
    return [line for index, line in enumerate(lines) if index not in left_out]


async def samples(model: ServedModel, *, first: bool, step: int | None) -> dict[str, Any]:
    """Translations of some examples by the weights as they are now."""
    result: dict[str, Any] = {"step": step, "translations": [], "problem": None}
    try:
        if not first or model.state == "failed":
            await model.refresh()
        await model.loaded()
        with suppress(TimeoutError):  # of a corpus that takes long to read, later samples
            await asyncio.wait_for(model.examples_known.wait(), EXAMPLES_SECONDS)
        texts = [example["source"] for example in model.examples][:SAMPLES]
        if texts:
            payload = {"search": model.info["search"], "n_best": 1, "attention": True, "texts": texts}
            job = Job("translate", payload, rows=texts, client="training")
            result["translations"] = [json.loads(record) for record in await model.submit(job)]
    except ServiceError as error:
        result["problem"] = error.message
    return result
