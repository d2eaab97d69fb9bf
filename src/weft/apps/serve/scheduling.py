"""The scheduler of a model: a queue, and the loop that sends batches to the worker whenever the worker is free."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weft.apps.serve.admission import Admission, Search
from weft.apps.serve.errors import ModelUnavailableError, ServiceError
from weft.apps.serve.metrics import (
    BATCH_ROWS,
    OPERATION_ERRORS,
    OPERATION_TIME,
    QUEUE_TIME,
    REFUSED,
    RUNNING,
    TEXTS,
    WAITING,
)
from weft.apps.serve.queueing import Batch, FairQueue, Job, Rates
from weft.apps.serve.worker_process import WorkerEndedError, WorkerProcess
from weft.runtime.processes import Message

if TYPE_CHECKING:
    from weft.apps.serve.models import ServedModel

BESIDE = 0.1
"""Fraction of a batch's time that a request waits for others while another batch is being searched."""
MAX_ATTEMPTS = 2
"""Attempts per job: a job whose worker ends twice is not sent again."""


class Scheduler:
    """Searches the queued jobs of one model in batches, one or a few concurrently."""

    def __init__(self, name: str, model: ServedModel, capacity: int) -> None:
        self.name = name
        self.model = model
        self.queue = FairQueue()
        settings = model.settings
        self.rates = Rates(
            batch_tokens=settings.batch_tokens, batch_seconds=settings.batch_seconds, deadline=settings.deadline
        )
        self.admission = Admission(self.rates, capacity=capacity, max_wait=settings.max_wait)
        self.parallel = 1
        """Number of batches searched concurrently."""
        self.running: dict[int, Search] = {}
        """The batches that are being searched, by number."""
        self.tasks: set[asyncio.Task[None]] = set()

    def add(self, job: Job) -> None:
        """Queue a job; `BusyError` if it is refused."""
        running = list(self.running.values())
        if (replaced := self.admission.check(job, list(self.queue), running, parallel=self.parallel)) is not None:
            self.queue.remove(replaced)
            self.model.metrics.add(REFUSED, model_name=self.model.name)
        self.queue.add(job)
        self._count()

    def abandon(self, job: Job) -> None:
        """Drop the rows of a job, waiting or running."""
        self.queue.remove(job)
        self.admission.last.clear()
        if self.model.worker is None:
            return
        for number, search in self.running.items():
            if search.batch.alone is job:
                self.model.worker.cancel(number)
            elif rows := [row for row, item in enumerate(search.batch.items) if item.job is job]:
                self.model.worker.cancel(number, rows)

    async def run(self) -> None:
        """Send batches until cancelled."""
        try:
            while True:
                while not len(self.queue):
                    self.queue.arrival.clear()
                    await self.queue.arrival.wait()
                await self.model.ready.wait()
                self._send_due()
                if len(self.queue):
                    self.queue.arrival.clear()
                    patience = self._patience(next(iter(self.queue))) if self._has_time() else None
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.queue.arrival.wait(), patience)
        finally:
            for task in self.tasks:
                task.cancel()

    def _has_time(self) -> bool:
        return len(self.running) < self.parallel

    def _send_due(self) -> None:
        """Send the batches that can be sent now."""
        while self._has_time() and self._is_due():
            batch = self.queue.take(self.rates.cost)
            self.admission.last.clear()
            if batch is None:
                return
            number, answer = self._send(batch)
            task = asyncio.create_task(self._receive(number, answer, self.model.worker))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _receive(self, number: int, answer: asyncio.Future[Message], worker: WorkerProcess | None) -> None:
        """Wait for the answer to a batch, and deliver it after the worker has been sent the next batch."""
        batch, started = self.running[number].batch, self.running[number].started
        message: Message | None = None
        try:
            message = await answer
            seconds = time.monotonic() - started
            self._measure(batch, seconds)
            operation = batch.alone.op if batch.alone is not None else "translate"
            self.model.metrics.observe(OPERATION_TIME, seconds, model_name=self.model.name, operation=operation)
        except WorkerEndedError:
            self._send_again(batch, worker)
        except ServiceError as error:
            for job in batch.jobs():
                self.model.metrics.add(
                    OPERATION_ERRORS, model_name=self.model.name, operation=job.op, status=str(error.status)
                )
                self.queue.remove(job)
                job.fail(error)
        finally:
            del self.running[number]
        self._send_due()
        self.queue.arrival.set()
        if message is not None:
            self._deliver(batch, message)
        self._count()

    def _is_due(self) -> bool:
        """Whether a batch can be sent now."""
        if not len(self.queue) or not self.model.ready.is_set():
            return False
        first = next(iter(self.queue))
        if first.batch_key is None or first.taken or first.attempts or self._patience(first) <= 0.0:
            return True
        return self.queue.waiting_cost(self.rates.cost, 1.0) >= 1.0

    def _patience(self, job: Job) -> float:
        """Seconds a job may still wait for others: longer while another batch runs, which a new one would slow down."""
        settings = self.model.settings
        longest = max(settings.batch_wait, BESIDE * settings.batch_seconds) if self.running else settings.batch_wait
        return job.arrived + longest - time.monotonic()

    def _send(self, batch: Batch) -> tuple[int, asyncio.Future[Message]]:
        worker, now = self.model.worker, time.monotonic()
        assert worker is not None
        for job in batch.jobs():
            if job.started is None:
                job.started = now
                self.model.metrics.observe(QUEUE_TIME, now - job.arrived, model_name=self.model.name)
        on_event = None
        if batch.alone is not None:
            op, payload, on_event = batch.alone.op, batch.alone.payload, batch.alone.on_event
        else:
            op, payload = "translate", self._batch_payload(batch)
            self.model.metrics.observe(BATCH_ROWS, len(batch.items), model_name=self.model.name)
        number, answer = worker.send({"op": op, "queue": self.name}, payload, on_event)
        self.running[number] = Search(batch, now, self.rates.expected(batch))
        self._count()
        return number, answer

    def _batch_payload(self, batch: Batch) -> dict[str, Any]:
        """Jobs of one batch differ in nothing but their texts."""
        return {**batch.items[0].job.payload, "texts": [item.job.rows[item.row] for item in batch.items]}

    def _measure(self, batch: Batch, seconds: float) -> None:
        work = batch.alone.work if batch.alone is not None else sum(item.job.work for item in batch.items)
        self.rates.measured_work(work, seconds)
        if batch.alone is not None:
            self.rates.measured_alone(batch.alone.op, seconds)
        elif batch.items[0].job.batch_key is not None:
            self.rates.measured(batch.items[0].job.batch_key, self.rates.tokens_of(batch), seconds)

    def _deliver(self, batch: Batch, message: Message) -> None:
        metrics, name = self.model.metrics, self.model.name
        if batch.alone is not None:
            metrics.add(TEXTS, max(len(batch.alone.rows), 1), model_name=name)
            if errors := message.header.get("errors"):
                batch.alone.fail(ServiceError(*next(iter(errors.values()))))
            else:
                batch.alone.finish(message.bodies)
            return
        metrics.add(TEXTS, len(batch.items), model_name=name)
        errors = message.header["errors"]
        for index, (item, body) in enumerate(zip(batch.items, message.bodies, strict=True)):
            if error := errors.get(str(index)):
                self.queue.remove(item.job)
                item.job.fail(ServiceError(*error))
            else:
                item.job.put(item.row, body)
        self._learn_token_lengths(batch, message)

    def _learn_token_lengths(self, batch: Batch, message: Message) -> None:
        """Update the tokens per character from one row: parsing all of them would take too long."""
        text, body = batch.items[0].job.rows[batch.items[0].row], message.bodies[0]
        if len(text) > 8 and len(body) < 1 << 14 and body != b"null":
            tokens = len(json.loads(body)["source_tokens"])
            self.rates.tokens_per_character += 0.1 * (tokens / len(text) - self.rates.tokens_per_character)

    def _send_again(self, batch: Batch, worker: WorkerProcess | None) -> None:
        """After the end of a worker, queue each of its jobs again, alone, since one of them may be the cause."""
        again = []
        for job in batch.jobs():
            if worker is not None and job.lost_worker is worker:
                continue  # it had rows in another batch, too
            self.queue.remove(job)
            job.lost_worker = worker
            job.attempts += 1
            is_last = job.attempts >= MAX_ATTEMPTS
            if is_last and worker is not None and worker.is_hung:
                job.fail(ModelUnavailableError("the worker of the model stopped answering, twice; try again"))
            elif job.on_event is not None:  # some of its events may have been sent
                job.fail(ModelUnavailableError("the worker of the model ended during this search; try again"))
            elif is_last:
                job.fail(ServiceError(500, "the worker of the model ended twice while it searched for this request"))
            elif not job.abandoned:
                job.taken, job.missing = 0, len(job.rows)
                again.append(job)
        self.queue.return_first(again)

    def _count(self) -> None:
        metrics, name = self.model.metrics, self.model.name
        schedulers = self.model.schedulers.values()
        metrics.set(WAITING, sum(len(scheduler.queue) for scheduler in schedulers), model_name=name)
        running = sum(len(search.batch.jobs()) for scheduler in schedulers for search in scheduler.running.values())
        metrics.set(RUNNING, running, model_name=name)
