"""Batches that are searched at once: when each is sent, and what becomes of a job that has rows in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apps.serve.servers import settings
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.lanes import Lane
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.models import ServedModel
from weft.apps.serve.queueing import Batch, Item, Job
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
        lane._learn_token_lengths = lambda batch, message: None  # type: ignore[method-assign]
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
        await settle()
        assert long.done.done() and long.done.result() == [TEXT.upper().encode()] * 25

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
    async def test(lane: Lane, worker: FakeWorker) -> None:
        batch = Batch([Item(Job("translate", {}, rows=[text], batch_key=KEY), 0)], None, 1.0)
        Lane._learn_token_lengths(lane, batch, Message({}, [body]))
        assert lane.rates.tokens_per_character == pytest.approx(learned)

    run(test)


def test_a_row_that_fails_fails_its_own_job() -> None:
    async def test(lane: Lane, worker: FakeWorker) -> None:
        good, bad = job(lane, 1), job(lane, 2)
        await settle()
        [(texts, answer)] = worker.sent
        assert len(texts) == 3
        answer.set_result(Message({"errors": {"1": [422, "bad"]}}, [b"1", b"null", b"3"]))
        await settle()
        assert good.done.done() and good.done.result() == [b"1"]
        assert isinstance(error := bad.done.exception(), ServiceError) and (error.status, error.message) == (422, "bad")
        text = lane.model.metrics.text()
        assert 'weft_texts_total{model_name="m"} 3' in text and 'weft_batch_rows_sum{model_name="m"} 3' in text
        assert not lane.running

    run(test)


def test_a_job_alone() -> None:
    """Its time is that of its operation, and its error that of its first row."""

    async def test(lane: Lane, worker: FakeWorker) -> None:
        jobs = [Job("score", {"texts": []}, rows=rows, client="x") for rows in (["a", "b"], [], ["c"])]
        for number, one in enumerate(jobs, 1):
            lane.add(one)
            await settle()
            errors = {"0": [422, "bad"]} if number == 3 else {}
            worker.sent[number - 1][1].set_result(Message({"errors": errors}, [b"{}"]))
            await settle()
        assert [one.done.result() for one in jobs[:2]] == [[b"{}"], [b"{}"]]
        assert isinstance(jobs[2].done.exception(), ServiceError)
        assert 'weft_texts_total{model_name="m"} 4' in lane.model.metrics.text()
        assert [*lane.rates.seconds_alone] == ["score"]

    run(test)


def test_a_worker_that_ends_twice() -> None:
    """A job is sent once more; one whose events have been sent is not, and one whose client has left neither."""

    async def test(lane: Lane, worker: FakeWorker) -> None:
        again = Job("translate", {}, rows=[TEXT], batch_key=KEY)
        streamed = Job("stream", {}, on_event=lambda name, data: None)
        left = Job("translate", {}, rows=[TEXT], batch_key=KEY)
        left.abandoned = True
        lane.model.ready.clear()
        for one in (again, streamed, left):
            batch = Batch([Item(one, 0)], None, 1.0) if one.rows else Batch([], one, 1.0)
            lane._send_again(batch, cast(Any, "first"))
        assert list(lane.queue) == [again] and again.attempts == 1 and not again.done.done()
        assert isinstance(error := streamed.done.exception(), ServiceError) and error.status == 503
        assert not left.done.done()
        lane._send_again(Batch([Item(again, 0)], None, 1.0), cast(Any, "second"))
        assert isinstance(error := again.done.exception(), ServiceError) and error.status == 500
        assert "ended twice" in error.message and not len(lane.queue)

    run(test)
