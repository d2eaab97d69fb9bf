"""Batches that are searched at once: when each is sent, and what becomes of a job that has rows in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from serve.servers import settings
from weft.serve.frames import Frame
from weft.serve.lanes import Lane
from weft.serve.metrics import Metrics
from weft.serve.models import ServedModel
from weft.serve.queueing import Job
from weft.serve.worker_process import WorkerEndedError

KEY = "beam"
TEXT = "a" * 9


class FakeWorker:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[str], asyncio.Future[Frame]]] = []
        self.cancelled: list[tuple[int, list[int]]] = []

    def send(self, header: Any, payload: Any, on_event: Any = None) -> tuple[int, asyncio.Future[Frame]]:
        self.sent.append((payload["texts"], asyncio.get_running_loop().create_future()))
        return len(self.sent), self.sent[-1][1]

    def cancel(self, number: int, rows: list[int]) -> None:
        self.cancelled.append((number, rows))

    def answer(self, number: int) -> None:
        texts, answer = self.sent[number - 1]
        answer.set_result(Frame({"errors": {}}, [text.upper().encode() for text in texts]))


def run(test: Callable[[Lane, FakeWorker], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """A test with a lane of two searches, each of which takes ten texts a second."""

    async def with_lane() -> None:
        worker, ready = FakeWorker(), asyncio.Event()
        ready.set()
        chosen = settings(batch_seconds=1.0, batch_wait=0.0, **changes)
        model = SimpleNamespace(settings=chosen, worker=worker, ready=ready, metrics=Metrics(), name="m", lanes={})
        lane = Lane("batch", cast(ServedModel, model), 99)
        lane.parallel = 2
        lane.rates.tokens_per_character = 1.0
        lane.rates.tokens_per_second[KEY] = 100.0
        lane._learn_token_lengths = lambda batch, frame: None  # type: ignore[method-assign]
        task = asyncio.create_task(lane.run())
        await test(lane, worker)
        task.cancel()

    asyncio.run(with_lane())


def job(lane: Lane, count: int) -> Job:
    added = Job("translate", {}, rows=[TEXT] * count, batch_key=KEY, client="x")
    lane.add(added)
    return added


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_two_batches_at_once() -> None:
    async def test(lane: Lane, worker: FakeWorker) -> None:
        long = job(lane, 25)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10], "the third waits"
        worker.answer(2)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10, 5]
        assert set(lane.running) == {1, 3}
        worker.answer(3)
        worker.answer(1)
        assert await long.done == [TEXT.upper().encode()] * 25

    run(test)


def test_a_small_batch_beside_another_waits_for_more() -> None:
    """For a tenth of the time of a batch; or until the other is done, or a batch is full."""

    async def test(lane: Lane, worker: FakeWorker) -> None:
        job(lane, 1)
        await settle()
        assert len(worker.sent) == 1, "nothing else is searched: at once"
        for _ in range(3):
            job(lane, 1)
        await settle()
        assert len(worker.sent) == 1
        job(lane, 8)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [1, 11], "full, with the remainder"
        job(lane, 1)
        worker.answer(2)
        await settle()
        assert len(worker.sent) == 2
        worker.answer(1)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [1, 11, 1]
        job(lane, 1).arrived -= 0.1
        lane.queue.arrival.set()
        await settle()
        assert len(worker.sent) == 4

    run(test)


def test_a_job_in_two_batches_of_a_worker_that_ends() -> None:
    """It has lost one worker, not two."""

    async def test(lane: Lane, worker: FakeWorker) -> None:
        long = job(lane, 20)
        await settle()
        assert len(worker.sent) == 2
        lane.model.ready.clear()
        for _, answer in worker.sent:
            answer.set_exception(WorkerEndedError())
        await settle()
        assert (long.attempts, long.taken, long.missing, list(lane.queue)) == (1, 0, 20, [long])
        lane.model.ready.set()
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10, 20]

    run(test)


def test_a_client_that_leaves_frees_its_rows_in_all_batches() -> None:
    async def test(lane: Lane, worker: FakeWorker) -> None:
        long = job(lane, 25)
        await settle()
        lane.abandon(long)
        assert worker.cancelled == [(1, list(range(10))), (2, list(range(10)))]
        assert not len(lane.queue)

    run(test)


@pytest.mark.parametrize("parallel", [1, 2])
def test_admission_knows_how_many_are_searched_at_once(parallel: int) -> None:
    async def test(lane: Lane, worker: FakeWorker) -> None:
        lane.parallel = parallel
        job(lane, 10 * parallel)
        await settle()
        assert len(lane.running) == parallel
        for _ in range(10):
            job(lane, 1)
        error = None
        try:
            job(lane, 1)  # after the batch that is searched, and a full one; beside it, if there are two
        except Exception as caught:
            error = caught
        assert (error is None) == (parallel == 2)

    run(test, max_wait=1.6)
