"""Batches that are searched at once: when each is sent, and what becomes of a job that has rows in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apps.serve.servers import settings
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.models import ServedModel
from weft.apps.serve.queueing import Batch, Item, Job, Speed
from weft.apps.serve.scheduling import Scheduler
from weft.apps.serve.worker_process import WorkerEndedError
from weft.runtime.processes import Message

KEY = "beam"
TEXT = "a" * 9


class FakeWorker:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[str], asyncio.Future[Message]]] = []
        self.cancelled: list[tuple[int, list[int]]] = []

    def send(self, header: Any, payload: Any, on_event: Any = None) -> tuple[int, asyncio.Future[Message]]:
        self.sent.append((payload["texts"], asyncio.get_running_loop().create_future()))
        return len(self.sent), self.sent[-1][1]

    def cancel(self, number: int, rows: list[int]) -> None:
        self.cancelled.append((number, rows))

    def answer(self, number: int) -> None:
        texts, answer = self.sent[number - 1]
        answer.set_result(Message({"errors": {}}, [text.upper().encode() for text in texts]))


def run(test: Callable[[Scheduler, FakeWorker], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """A test with a scheduler of two searches, each of which takes ten texts a second."""

    async def with_scheduler() -> None:
        worker, ready = FakeWorker(), asyncio.Event()
        ready.set()
        chosen = settings(batch_seconds=1.0, batch_wait=0.0, **changes)
        model = SimpleNamespace(settings=chosen, worker=worker, ready=ready, metrics=Metrics(), name="m", schedulers={})
        scheduler = Scheduler("batch", cast(ServedModel, model), 99)
        scheduler.parallel = 2
        scheduler.rates.tokens_per_character = 1.0
        scheduler.rates.speeds[KEY] = Speed(100.0, 10.0)
        scheduler._learn_token_lengths = lambda batch, message: None  # type: ignore[method-assign]
        task = asyncio.create_task(scheduler.run())
        await test(scheduler, worker)
        task.cancel()

    asyncio.run(with_scheduler())


def job(scheduler: Scheduler, count: int) -> Job:
    added = Job("translate", {}, rows=[TEXT] * count, batch_key=KEY, client="x")
    scheduler.add(added)
    return added


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_two_batches_at_once() -> None:
    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        long = job(scheduler, 25)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10], "the third waits"
        worker.answer(2)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10, 5]
        assert set(scheduler.running) == {1, 3}
        worker.answer(3)
        worker.answer(1)
        await settle()
        assert long.done.done() and long.done.result() == [TEXT.upper().encode()] * 25

    run(test)


def test_a_small_batch_beside_another_waits_for_more() -> None:
    """For a tenth of the time of a batch; or until the other is done, or a batch is full."""

    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        job(scheduler, 1)
        await settle()
        assert len(worker.sent) == 1, "nothing else is searched: at once"
        for _ in range(3):
            job(scheduler, 1)
        await settle()
        assert len(worker.sent) == 1
        job(scheduler, 8)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [1, 11], "full, with the remainder"
        job(scheduler, 1)
        worker.answer(2)
        await settle()
        assert len(worker.sent) == 2
        worker.answer(1)
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [1, 11, 1]
        job(scheduler, 1).arrived -= 0.1
        scheduler.queue.arrival.set()
        await settle()
        assert len(worker.sent) == 4

    run(test)


def test_a_job_in_two_batches_of_a_worker_that_ends() -> None:
    """It has lost one worker, not two."""

    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        long = job(scheduler, 20)
        await settle()
        assert len(worker.sent) == 2
        scheduler.model.ready.clear()
        for _, answer in worker.sent:
            answer.set_exception(WorkerEndedError())
        await settle()
        assert (long.attempts, long.taken, long.missing, list(scheduler.queue)) == (1, 0, 20, [long])
        scheduler.model.ready.set()
        await settle()
        assert [len(texts) for texts, _ in worker.sent] == [10, 10, 20]

    run(test)


def test_a_client_that_leaves_frees_its_rows_in_all_batches() -> None:
    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        long = job(scheduler, 25)
        await settle()
        scheduler.abandon(long)
        assert worker.cancelled == [(1, list(range(10))), (2, list(range(10)))]
        assert not len(scheduler.queue)

    run(test)


@pytest.mark.parametrize("parallel", [1, 2])
def test_admission_knows_how_many_are_searched_at_once(parallel: int) -> None:
    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        scheduler.parallel = parallel
        job(scheduler, 10 * parallel)
        await settle()
        assert len(scheduler.running) == parallel
        for _ in range(10):
            job(scheduler, 1)
        error = None
        try:
            job(scheduler, 1)  # after the batch that is searched, and a full one; beside it, if there are two
        except Exception as caught:
            error = caught
        assert (error is None) == (parallel == 2)

    run(test, max_wait=1.6)


@pytest.mark.parametrize(
    ("text", "body", "learned"),
    [
        ("a" * 9, b'{"source_tokens":["a","b","c"]}', 1.0 + 0.1 * (3 / 9 - 1.0)),
        ("a" * 8, b'{"source_tokens":["a","b","c"]}', 1.0),  # too short to tell
        ("a" * 9, b"null", 1.0),  # without a result
        ("a" * 9, b'{"source_tokens":[]' + b" " * (1 << 14) + b"}", 1.0),  # too long to read
    ],
)
def test_how_many_tokens_a_character_has_is_learned(text: str, body: bytes, learned: float) -> None:
    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        batch = Batch([Item(Job("translate", {}, rows=[text], batch_key=KEY), 0)], None, 1.0)
        Scheduler._learn_token_lengths(scheduler, batch, Message({}, [body]))
        assert scheduler.rates.tokens_per_character == pytest.approx(learned)

    run(test)


def test_a_row_that_fails_fails_its_own_job() -> None:
    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        good, bad = job(scheduler, 1), job(scheduler, 2)
        await settle()
        [(texts, answer)] = worker.sent
        assert len(texts) == 3
        answer.set_result(Message({"errors": {"1": [422, "bad"]}}, [b"1", b"null", b"3"]))
        await settle()
        assert good.done.done() and good.done.result() == [b"1"]
        assert isinstance(error := bad.done.exception(), ServiceError) and (error.status, error.message) == (422, "bad")
        text = scheduler.model.metrics.text()
        assert 'weft_texts_total{model_name="m"} 3' in text and 'weft_batch_rows_sum{model_name="m"} 3' in text
        assert not scheduler.running

    run(test)


def test_a_job_alone() -> None:
    """Its time is that of its operation, and its error that of its first row."""

    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        jobs = [Job("score", {"texts": []}, rows=rows, client="x") for rows in (["a", "b"], [], ["c"])]
        for number, one in enumerate(jobs, 1):
            scheduler.add(one)
            await settle()
            errors = {"0": [422, "bad"]} if number == 3 else {}
            worker.sent[number - 1][1].set_result(Message({"errors": errors}, [b"{}"]))
            await settle()
        assert [one.done.result() for one in jobs[:2]] == [[b"{}"], [b"{}"]]
        assert isinstance(jobs[2].done.exception(), ServiceError)
        assert 'weft_texts_total{model_name="m"} 4' in scheduler.model.metrics.text()
        assert [*scheduler.rates.seconds_alone] == ["score"]

    run(test)


def test_a_worker_that_ends_twice() -> None:
    """A job is sent once more; one whose events have been sent is not, and one whose client has left neither."""

    async def test(scheduler: Scheduler, worker: FakeWorker) -> None:
        again = Job("translate", {}, rows=[TEXT], batch_key=KEY)
        streamed = Job("stream", {}, on_event=lambda name, data: None)
        left = Job("translate", {}, rows=[TEXT], batch_key=KEY)
        left.abandoned = True
        scheduler.model.ready.clear()
        for one in (again, streamed, left):
            batch = Batch([Item(one, 0)], None, 1.0) if one.rows else Batch([], one, 1.0)
            scheduler._send_again(batch, cast(Any, SimpleNamespace(is_hung=False)))
        assert list(scheduler.queue) == [again] and again.attempts == 1 and not again.done.done()
        assert isinstance(error := streamed.done.exception(), ServiceError) and error.status == 503
        assert not left.done.done()
        scheduler._send_again(Batch([Item(again, 0)], None, 1.0), cast(Any, SimpleNamespace(is_hung=False)))
        assert isinstance(error := again.done.exception(), ServiceError) and error.status == 500
        assert "ended twice" in error.message and not len(scheduler.queue)

    run(test)
