"""The models of a service: each has a worker process, which is restarted when it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.apps.serve.errors import DeadlineError, ModelUnavailableError, ServiceError
from weft.apps.serve.memory import SERVICE_SHARE, memory_in_bytes
from weft.apps.serve.metrics import ABANDONED, READY, REFUSED, RESTARTS, Metrics
from weft.apps.serve.naming import Run, members
from weft.apps.serve.queueing import Job
from weft.apps.serve.scheduling import Scheduler
from weft.apps.serve.settings import ServeSettings, split_languages
from weft.apps.serve.worker_process import WorkerEndedError, WorkerProcess
from weft.errors import DataError, WeftError, nearest
from weft.recipe.files import read_tree
from weft.runs.adapted_run import WEIGHTS
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_owner

log = logging.getLogger("weft.apps.serve")
PLAIN = {"text", "model"}
"""Fields of a plain request, which can be refused before validation."""
MAX_PLAIN = 10_000
"""Bytes of such a request."""
MAX_FAILURES = 5
"""Starts in a row that may fail before a model is given up."""


class ServedModel:
    """A run under a name, or an ensemble of runs."""

    def __init__(
        self, name: str, run: Run, settings: ServeSettings, metrics: Metrics, languages: str | None = None
    ) -> None:
        """``languages``: SOURCE-TARGET, in place of those that the run names."""
        self.name = name
        self.given_languages = None if languages is None else split_languages(languages)
        self.runs = tuple(member.path for member in members(run))
        self.run, self.adapter = members(run)[0]
        self.settings = settings
        self.metrics = metrics
        self.state = "loading"
        self.problem: str | None = None
        self.info: dict[str, Any] = {}
        self.examples: list[dict[str, Any]] = []
        self.languages = self.given_languages or languages_of(self.run, name)
        self.worker: WorkerProcess | None = None
        self.ready = asyncio.Event()
        self.examples_known = asyncio.Event()
        self.schedulers = {
            "batch": Scheduler("batch", self, settings.max_waiting),
            "long": Scheduler("long", self, settings.max_waiting_long),
        }
        self.tasks: list[asyncio.Task[None]] = []
        self.stopping = False
        self.weights_time: tuple[float | None, ...] | None = None
        """When the weights were last written; None if unknown."""
        self.refreshing = asyncio.Lock()
        self.refreshed_time: tuple[float | None, ...] | None = None
        """When the weights of the last `refresh` were written."""
        self.memory: int | None = None
        """Bytes for the worker; None: unlimited."""
        self.version = 0
        """Number of times that the model was loaded."""

    def start(self) -> None:
        """Start the worker, and keep it running."""
        if not self.tasks:
            self.stopping = False
            schedulers = [scheduler.run() for scheduler in self.schedulers.values()]
            self.tasks = [asyncio.create_task(one) for one in (self._supervise(), *schedulers)]

    async def stop(self) -> None:
        self.stopping = True
        if self.worker is not None:
            await self.worker.stop()
        for task in self.tasks:
            task.cancel()
        for task in self.tasks:
            with suppress(asyncio.CancelledError):
                await task
        self.tasks = []

    async def _supervise(self) -> None:
        failures = 0
        while True:
            self.worker = WorkerProcess(self._config(), self._on_event, hang_timeout=self.settings.hang_timeout)
            version = self.version
            code = await self.worker.run()
            if self.stopping:
                return
            failures = failures + 1 if version == self.version else 0
            self.metrics.add(RESTARTS, model_name=self.name)
            reason = "stopped answering" if self.worker.is_hung else f"ended (exit code {code})"
            log.error("%s: its worker %s", self.name, reason)
            if failures >= MAX_FAILURES:
                self.state, self.problem = "failed", f"its worker {reason}, {failures} times in a row"
                self._fail_waiting()
                return
            self.state, self.problem = "loading", f"its worker {reason} and is started again"
            await asyncio.sleep(min(0.1 * 4**failures, 10.0) if failures else 0.0)

    def _config(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "runs": [str(run) for run in self.runs],
            "adapter": self.adapter,
            "device": settings.device,
            "precision": settings.precision,
            "engine": settings.engine,
            "threads": settings.threads,
            "parallel_searches": settings.parallel_searches,
            "log": settings.log,
            "max_output": settings.max_output,
            "max_weights": settings.max_weights,
            "max_exact_tokens": settings.max_exact_tokens,
            "deadline": settings.deadline,
            "memory": self.memory,
        }

    def _on_event(self, event: str, body: bytes) -> None:
        """Handle a worker's report about its model."""
        data = json.loads(body)
        self.weights_time = self.written()
        if event == "ended":
            self.ready.clear()
            self.state = "loading"
            if self.worker is not None and self.worker.is_hung:
                self.problem = "its worker stopped answering and is started again"
            self.metrics.set(READY, 0, model_name=self.name)
            return
        if event == "examples":
            self.examples = data["examples"]
            self.examples_known.set()
            return
        if event == "failed":
            self.state, self.problem = "failed", data["problem"]
            if self.version:
                log.error("%s: cannot be loaded: %s", self.name, self.problem)
            self.version += 1  # it has started; it is the run that cannot be loaded
            self._fail_waiting()
            return
        self.info, self.state, self.problem = data, "ready", None
        self.schedulers["batch"].parallel = data["parallel_searches"]
        self.languages = self.given_languages or languages_of(self.run, self.name)
        self.version += 1
        self.metrics.set(READY, 1, model_name=self.name)
        self.ready.set()

    def _fail_waiting(self) -> None:
        for scheduler in self.schedulers.values():
            for job in list(scheduler.queue):
                scheduler.queue.remove(job)
                job.fail(ModelUnavailableError(f"{self.name}: {self.problem}"))

    async def loaded(self) -> None:
        """Wait until the model can answer, for as long as a request may take."""
        if self.state == "failed" and self.weights_time != self.written():
            self.weights_time = self.written()
            await self.reload()  # training may have written weights since
        if self.state == "failed":
            raise ModelUnavailableError(f"{self.name}: {self.problem}")
        try:
            await asyncio.wait_for(self.ready.wait(), self.settings.deadline)
        except TimeoutError:
            raise ModelUnavailableError(f"{self.name}: is still being loaded") from None

    async def submit(self, job: Job, *, queue: str = "batch") -> list[bytes]:
        """The results of a job. If the caller is cancelled, or the deadline passes, its rows are dropped."""
        if self.state == "failed":
            raise ModelUnavailableError(f"{self.name}: {self.problem}")
        try:
            self.schedulers[queue].add(job)
        except ServiceError:
            self.metrics.add(REFUSED, model_name=self.name)
            raise
        deadline = self.settings.deadline
        try:
            return await asyncio.wait_for(asyncio.shield(job.done), deadline - (time.monotonic() - job.arrived))
        except TimeoutError:
            self.abandon(job)
            if job.attempts or self.problem is not None:  # no fault of the text
                raise ModelUnavailableError(f"{self.name}: its worker was started again; try again") from None
            raise DeadlineError(deadline) from None
        except asyncio.CancelledError:
            self.abandon(job)
            raise

    def abandon(self, job: Job) -> None:
        """Drop a job whose client has left."""
        if not job.done.done():
            self.metrics.add(ABANDONED, model_name=self.name)
            job.abandoned = True
            job.done.cancel()
            for scheduler in self.schedulers.values():
                scheduler.abandon(job)

    def written(self) -> tuple[float | None, ...]:
        """When the weights of each run were written."""
        return tuple(map(modified, self.runs))

    async def refresh(self) -> None:
        """Reload the model if its weights have changed; once for all concurrent callers."""
        async with self.refreshing:
            written = self.written()
            if self.state == "failed" or self.refreshed_time != written:
                await self.reload()
                self.refreshed_time = written

    async def reload(self) -> None:
        """Load what the run folder holds now; until that has succeeded, the old model answers."""
        if self.worker is None:
            raise ModelUnavailableError(f"{self.name}: is not running")
        if self.state == "failed" and self.worker.ended:
            self.tasks[0] = asyncio.create_task(self._supervise())
            self.state = "loading"
            return await self.loaded()
        _, answer = self.worker.send({"op": "reload", "queue": "long"}, {})
        try:
            await asyncio.wait_for(answer, max(self.settings.deadline, 60.0))
        except WorkerEndedError:
            raise ModelUnavailableError(f"{self.name}: its worker ended while it loaded the run") from None
        except TimeoutError:
            raise ModelUnavailableError(f"{self.name}: the run is still being loaded") from None
        except ServiceError as error:
            log.error("%s: not reloaded, the old weights answer: %s", self.name, error.message)
            raise ServiceError(409, error.message) from None

    @property
    def is_training(self) -> bool:
        """Whether one of its runs is being trained, so that it may have no weights yet."""
        return any(lock_owner(run) is not None for run in self.runs)

    @property
    def reads_arrays(self) -> bool:
        """Whether its sources are pictures or frames."""
        return self.info.get("reads", "text") != "text"

    def record(self) -> dict[str, Any]:
        """The entry of /api/models."""
        source, target = self.languages
        training = self.is_training
        return {
            "name": self.name,
            "title": self.name,
            **self.info,
            "state": "untrained" if self.state == "failed" and training else self.state,
            "problem": self.problem,
            "source": source,
            "target": target,
            "examples": self.examples,
            "training": training,
        }


def modified(run: Path) -> float | None:
    """When the weights or an adapter of a run were last written; None if there are none."""
    times = []
    for path in (RunFolder(run).model, *run.glob(f"adapters/*/{WEIGHTS}")):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def languages_of(run: Path, name: str) -> tuple[str, str]:
    """The names that a run gives its languages (serve.source, serve.target); else "source", and its own name."""
    try:
        section = read_tree(RunFolder(run).recipe).get("serve", {})
    except (WeftError, OSError):
        section = {}
    names = section if isinstance(section, dict) else {}
    return str(names.get("source") or "source"), str(names.get("target") or name)


class Models:
    """All models of a service by name; the first is the default."""

    def __init__(self, runs: Mapping[str, Run], settings: ServeSettings, metrics: Metrics) -> None:
        languages: list[str | None] = [*settings.languages] or [None]
        if len(languages) not in (1, len(runs)):
            given = f"{len(languages)} pairs for {len(runs)} runs"
            raise DataError(f"languages: {given}; give one for each, or one for all")
        languages = languages * len(runs) if len(languages) == 1 else languages
        self.by_name = {
            name: ServedModel(name, run, settings, metrics, pair)
            for (name, run), pair in zip(runs.items(), languages, strict=True)
        }
        self.memory = memory_in_bytes(settings)
        """Bytes of the service and its workers."""
        share = self.memory * (1.0 - SERVICE_SHARE) / max(len(self.by_name), 1)
        for model in self.by_name.values():
            model.memory = int(share)
        self.metrics = metrics
        self.draining = False
        self.reporting: asyncio.Future[None] | None = None
        """The task that reports when models are loaded: referred to here, or it could be garbage-collected."""

    def start(self) -> None:
        for model in self.by_name.values():
            model.start()

    async def stop(self) -> None:
        await asyncio.gather(*(model.stop() for model in self.by_name.values()))

    def get(self, name: str | None) -> ServedModel:
        """The model of a name, or the first."""
        if self.draining:
            raise ModelUnavailableError("the service is ending", retry_after=10.0)
        self.start()
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise ServiceError(404, f"model: {name[:60]!r} is not served; {nearest(name[:60], self.by_name)}")
        return self.by_name[name]

    def refusal(self, path: str, body: bytes, client: str) -> ServiceError | None:
        """Why a request is refused, if that is known without checking it.

        Under overload most requests are refused, and checking each of them would take the time of the others. A request
        that holds nothing but a text is refused if one that was not longer has just been refused.
        """
        admissions = {name: model.schedulers["batch"].admission for name, model in self.by_name.items()}
        if (
            path != "/api/translate"
            or len(body) > MAX_PLAIN
            or not any(client in each.last for each in admissions.values())
        ):
            return None
        try:
            data = json.loads(body)
        except ValueError:
            return None
        if not isinstance(data, dict) or not data.keys() <= PLAIN or not isinstance(data.get("text"), str):
            return None
        name = data.get("model", next(iter(admissions)))
        error = None
        if isinstance(name, str) and name in admissions:
            error = admissions[name].refusal(client, len(data["text"]))
        if error is not None:
            self.metrics.add(REFUSED, model_name=name)
        return error

    @property
    def ready(self) -> bool:
        return not self.draining and all(model.state == "ready" for model in self.by_name.values())
