"""A lane of a model: a queue, and the task that sends batches from it to the worker, one after the other."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weft.serve.admission import Admission, Search
from weft.serve.errors import ModelUnavailableError, ServiceError
from weft.serve.frames import Frame
from weft.serve.metrics import BATCH_ROWS, QUEUE_TIME, RUNNING, TEXTS, WAITING
from weft.serve.queueing import Batch, FairQueue, Job, Rates
from weft.serve.worker_process import WorkerEndedError

if TYPE_CHECKING:
    from weft.serve.models import ServedModel

MAX_ATTEMPTS = 2
"""How often a job is sent to a worker: a job whose worker ends twice is not sent again."""


class Lane:
    """Jobs of one model that are searched one batch at a time."""

    def __init__(self, name: str, model: ServedModel, capacity: int) -> None:
        self.name = name
        self.model = model
        self.queue = FairQueue()
        settings = model.settings
        self.rates = Rates(batch_tokens=settings.batch_tokens, batch_seconds=settings.batch_seconds)
        self.admission = Admission(self.rates, capacity=capacity, max_wait=settings.max_wait)
        self.running: Search | None = None

    def add(self, job: Job) -> None:
        """A new job; `BusyError` if it is refused."""
        self.admission.check(job, list(self.queue), self.running)
        self.queue.add(job)
        self._count()

    def abandon(self, job: Job) -> None:
        """Drop the rows of a job, waiting or running."""
        self.queue.remove(job)
        self.admission.last = None
        if self.running is None or self.model.worker is None:
            return
        number, batch = self.running.number, self.running.batch
        if batch.alone is job:
            self.model.worker.cancel(number)
        elif rows := [row for row, item in enumerate(batch.items) if item.job is job]:
            self.model.worker.cancel(number, rows)

    async def run(self) -> None:
        """Send batches for ever."""
        finished: tuple[Batch, Frame] | None = None
        while True:
            if finished is not None and not self._is_due():
                self._deliver(*finished)
                finished = None
            await self._wait()
            batch = self.queue.take(self.rates.cost, self.rates.budget)
            self.admission.last = None
            if batch is None:
                continue
            answer = self._send(batch)
            if finished is not None:  # after the worker has its next batch
                self._deliver(*finished)
                finished = None
            start = time.monotonic()
            try:
                frame = await answer
            except WorkerEndedError:
                self._send_again(batch)
            except ServiceError as error:
                for job in batch.jobs():
                    self.queue.remove(job)
                    job.fail(error)
            else:
                self._measure(batch, time.monotonic() - start)
                finished = batch, frame
            self.running = None
            self._count()

    async def _wait(self) -> None:
        """Until there is a batch to send: for the first job, then for others to be searched together with it."""
        while True:
            while not len(self.queue):
                self.queue.arrival.clear()
                await self.queue.arrival.wait()
            await self.model.ready.wait()
            if self._is_due():
                return
            if len(self.queue):
                self.queue.arrival.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.queue.arrival.wait(), self._patience(next(iter(self.queue))))

    def _is_due(self) -> bool:
        """Whether a batch can be sent now."""
        if not len(self.queue) or not self.model.ready.is_set():
            return False
        first = next(iter(self.queue))
        if first.batch_key is None or first.taken or first.attempts or self._patience(first) <= 0.0:
            return True
        budget = self.rates.budget(first.batch_key)
        return self.queue.waiting_cost(self.rates.cost, budget) >= budget

    def _patience(self, job: Job) -> float:
        """How long a job may still wait for others."""
        return job.arrived + self.model.settings.batch_wait - time.monotonic()

    def _send(self, batch: Batch) -> asyncio.Future[Frame]:
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
        number, answer = worker.send({"op": op, "lane": self.name}, payload, on_event)
        self.running = Search(number, batch, now, self._expected(batch))
        self._count()
        return answer

    def _batch_payload(self, batch: Batch) -> dict[str, Any]:
        """Jobs of one batch differ in nothing but their texts."""
        return {**batch.items[0].job.payload, "texts": [item.job.rows[item.row] for item in batch.items]}

    def _expected(self, batch: Batch) -> float:
        """How long a batch will take."""
        return self.rates.batch_time(batch.alone or batch.items[0].job, batch.cost)

    def _measure(self, batch: Batch, seconds: float) -> None:
        if batch.alone is not None:
            self.rates.measured_alone(batch.alone.op, seconds)
        elif batch.items[0].job.batch_key is not None:
            self.rates.measured(batch.items[0].job.batch_key, batch.cost, seconds)

    def _deliver(self, batch: Batch, frame: Frame) -> None:
        metrics, name = self.model.metrics, self.model.name
        if batch.alone is not None:
            metrics.add(TEXTS, max(len(batch.alone.rows), 1), model_name=name)
            if errors := frame.header.get("errors"):
                batch.alone.fail(ServiceError(*next(iter(errors.values()))))
            else:
                batch.alone.finish(frame.bodies)
            return
        metrics.add(TEXTS, len(batch.items), model_name=name)
        errors = frame.header["errors"]
        for index, (item, body) in enumerate(zip(batch.items, frame.bodies, strict=True)):
            if error := errors.get(str(index)):
                self.queue.remove(item.job)
                item.job.fail(ServiceError(*error))
            else:
                item.job.put(item.row, body)
        self._learn_token_lengths(batch, frame)

    def _learn_token_lengths(self, batch: Batch, frame: Frame) -> None:
        """How many tokens a character has, from one row: reading all of them would take too long."""
        text, body = batch.items[0].job.rows[batch.items[0].row], frame.bodies[0]
        if len(text) > 8 and len(body) < 1 << 14 and body != b"null":
            tokens = len(json.loads(body)["source_tokens"])
            self.rates.tokens_per_character += 0.1 * (tokens / len(text) - self.rates.tokens_per_character)

    def _send_again(self, batch: Batch) -> None:
        """The worker has ended: each job once more, alone, since one of them may be the reason."""
        again = []
        for job in batch.jobs():
            self.queue.remove(job)
            job.attempts += 1
            if job.on_event is not None:  # some of its events may have been sent
                job.fail(ModelUnavailableError("the worker of the model ended during this search; try again"))
            elif job.attempts >= MAX_ATTEMPTS:
                job.fail(ServiceError(500, "the worker of the model ended twice while it searched for this request"))
            elif not job.abandoned:
                job.taken, job.missing = 0, len(job.rows)
                again.append(job)
        self.queue.return_first(again)

    def _count(self) -> None:
        metrics, name = self.model.metrics, self.model.name
        lanes = self.model.lanes.values()
        metrics.set(WAITING, sum(len(lane.queue) for lane in lanes), model_name=name)
        running = sum(len(lane.running.batch.jobs()) for lane in lanes if lane.running is not None)
        metrics.set(RUNNING, running, model_name=name)
