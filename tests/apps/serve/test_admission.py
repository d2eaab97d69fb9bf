"""Which requests are refused; and a simulation of overload: the admitted ones keep their latency."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Iterator
from statistics import quantiles
from typing import Any, NamedTuple

import pytest

from weft.apps.serve.admission import Admission, Search
from weft.apps.serve.errors import BusyError
from weft.apps.serve.queueing import Batch, FairQueue, Job, Rates, Speed

KEY = "beam"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def job(*rows: str, key: str | None = KEY, client: str = "x") -> Job:
    made = Job("translate", {}, rows=rows, batch_key=key, client=client)
    made.plain = key == KEY
    return made


class Clock:
    """The time of a test."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def admission(*, rate: float = 10.0, capacity: int = 100, max_wait: float = 2.0) -> tuple[Admission, Clock]:
    """Searches of ``rate`` texts of nine characters per second, in batches of a second."""
    rates = Rates(batch_tokens=4096, batch_seconds=1.0)
    rates.tokens_per_character = 1.0
    rates.speeds[KEY] = Speed(10.0 * rate, rate)
    clock = Clock()
    return Admission(rates, capacity=capacity, max_wait=max_wait, clock=clock), clock


TEXT = "a" * 9


def test_the_queue_is_bounded() -> None:
    async def test() -> None:
        door, _ = admission(capacity=2)
        door.check(job("a"), [job(TEXT)], [])
        assert door.refusal("x", 1) is None
        with pytest.raises(BusyError) as caught:
            door.check(job("a"), [job(*[TEXT] * 20), job(*[TEXT] * 17)], [])
        assert str(caught.value) == "2 requests are already waiting; try again later"
        assert caught.value.headers == {"Retry-After": "4"}
        assert door.refusal("x", 0) is caught.value, "whatever comes next is refused as well"

    run(test)


def test_who_would_wait_too_long_is_refused() -> None:
    """For the batch that is being searched, and for those that the requests before it fill."""

    async def test() -> None:
        door, clock = admission(max_wait=1.5)
        clock.now = 1000.0
        running = Search(Batch([], None, 100.0), 999.8, 1.0)
        door.check(job(TEXT), [job(TEXT)] * 8, [running])  # in 0.8 s: there is room for it in the next batch
        with pytest.raises(BusyError) as caught:
            door.check(job(TEXT), [job(TEXT)] * 10, [running])
        assert str(caught.value) == "a search would begin in about 1.8 seconds; try again later"
        assert caught.value.headers == {"Retry-After": "1"}
        assert door.refusal("x", 9) is caught.value and door.refusal("x", 8) is None, "a shorter one may be admitted"
        door.check(job(TEXT), [job(TEXT)] * 5, [running._replace(seconds=30.0)])  # one long search
        clock.now += 0.31
        assert door.refusal("x", 9) is None, "1.49 seconds now"
        door.check(job(TEXT), [job(TEXT)] * 10, [running])

    run(test)


def test_long_requests() -> None:
    """A short one waits for a row of a long one. A long one may wait for as long as it takes itself."""

    async def test() -> None:
        door, _ = admission(max_wait=0.5)
        long = job(*[TEXT] * 100)
        door.check(job(TEXT), [long] * 5, [])
        door.check(long, [long], [])
        with pytest.raises(BusyError):
            door.check(long, [long, long], [])
        assert door._limit("x", 1.0, door.clock(), 1) == 0.5, "four requests are no overload"

    run(test)


def test_other_kinds_of_search() -> None:
    async def test() -> None:
        door, _ = admission(max_wait=0.5)
        door.check(job(TEXT, key="new"), [job(TEXT)] * 4, [])
        with pytest.raises(BusyError):
            door.check(job(TEXT, key="new"), [job(TEXT)] * 6, [])  # another batch, before its own
        door.check(job(TEXT, key=KEY), [job(TEXT, key="new")] * 6, [])
        door.rates.measured_alone("translate", 0.3)
        door.check(job(TEXT, key=None), [job(TEXT, key=None)], [])
        with pytest.raises(BusyError) as caught:
            door.check(job(TEXT, key=None), [job(TEXT, key=None)] * 2, [])
        assert "in about 0.6 seconds" in str(caught.value)
        assert door.refusal("x", 9) is None, "only plain requests are refused unread"

    run(test)


def test_a_short_operation_may_wait_for_a_batch() -> None:
    """However short it is itself, also if its client keeps the service busy."""

    async def test() -> None:
        door, clock = admission()
        score = Job("score", {}, client="x")
        door.rates.measured_alone("score", 0.02)
        door.loads["x"] = (1.0, clock.now)
        running = Search(Batch([], None, 1.0), clock.now, 1.0)
        door.check(score, [], [running])
        with pytest.raises(BusyError):
            door.check(score, [job(TEXT)] * 20, [running])

    run(test)


class Outcome(NamedTuple):
    """Of a simulation."""

    per_second: float
    p50: float
    p99: float


def simulate(load: float, *, seconds: float = 40.0, fixed: float = 0.12, per_row: float = 0.0125) -> Outcome:
    """Requests at random times; a batch takes ``fixed + per_row · rows`` seconds, give or take a tenth."""
    chosen, clock = random.Random(1), Clock()
    rates = Rates(batch_tokens=4096, batch_seconds=0.5)
    door, queue = Admission(rates, capacity=256, max_wait=2.0, clock=clock), FairQueue()
    latencies: list[float] = []
    arrived: dict[Job, float] = {}

    def arrivals() -> Iterator[float]:
        while True:
            yield clock.now + chosen.expovariate(load / per_row)

    running, end, start = None, 0.0, clock.now
    next_arrival = next(times := arrivals())
    while clock.now < start + seconds:
        if running is None and len(queue):
            batch = queue.take(rates.cost)
            assert batch is not None
            door.last.clear()
            running = Search(batch, clock.now, rates.expected(batch))
            end = clock.now + (fixed + per_row * len(batch.items)) * chosen.lognormvariate(0.0, 0.1)
        if running is not None and end < next_arrival:
            clock.now = end
            rates.measured(KEY, rates.tokens_of(running.batch), end - running.started)
            latencies += [end - arrived.pop(item.job) for item in running.batch.items if end > start + seconds / 4]
            running = None
            continue
        clock.now = next_arrival
        one = job("a" * chosen.randint(50, 120))
        arrived[one] = clock.now
        if door.refusal("x", one.characters) is None:
            try:
                door.check(one, list(queue), [] if running is None else [running])
                queue.add(one)
            except BusyError:
                pass
        next_arrival = next(times)
    cuts = quantiles(latencies, n=100)
    return Outcome(len(latencies) / (0.75 * seconds), cuts[49], cuts[98])


def test_the_admitted_keep_their_latency() -> None:
    async def test() -> None:
        half, twice, tenfold = simulate(0.4), simulate(1.6), simulate(8.0)
        assert half.p50 < 0.4 and half.p99 < 1.0 and half.per_second == pytest.approx(0.4 * 80, rel=0.1)
        for overload in (twice, tenfold):
            assert overload.per_second > 52.0, "full batches: a batch of half a second has 30 texts, 60 per second"
        assert twice.p50 < 1.2 and twice.p99 < 1.8
        assert tenfold.per_second > 0.95 * twice.per_second
        assert tenfold.p50 < 2.5 * half.p50 and tenfold.p99 < 1.1

    run(test)


@pytest.mark.parametrize(
    ("load", "parallel", "batch", "limit"),
    [
        (0.0, 1, 1.0, 2.0),  # as long as the service allows
        (1.0, 1, 1.0, 2.0),
        (4.0, 1, 1.0, 0.5),  # until two other batches have arrived
        (4.0, 2, 1.0, 1.0),
        (4.0, 1, 0.5, 0.25),
        (20.0, 1, 1.0, 0.5),  # half of a batch
        (4.0, 1, 0.0, 2.0),  # nothing is known
    ],
)
def test_how_long_a_request_may_wait(load: float, parallel: int, batch: float, limit: float) -> None:
    door, clock = admission()
    door.loads["x"] = (load, clock.now)
    assert door._limit("x", batch, clock.now, parallel) == pytest.approx(limit)


def test_arrivals_are_forgotten_and_long_ones_count_as_a_quarter_of_a_batch() -> None:
    async def test() -> None:
        door, clock = admission()
        door.check(job(TEXT), [], [])  # 0.1 s, per 2 s
        assert door._load_now("x", clock.now) == pytest.approx(0.05)
        door.check(job(*[TEXT] * 50), [], [])
        assert door._load_now("x", clock.now) == pytest.approx(0.05 + 0.25 / 2)
        assert door._load_now("x", clock.now + 2.0) == pytest.approx(0.175 / math.e)
        clock.now += 2.0
        door.check(job(TEXT), [], [])
        assert door._load_now("x", clock.now) == pytest.approx(0.175 / math.e + 0.05)

    run(test)


def test_a_refusal_holds_until_the_queue_would_be_short_enough() -> None:
    async def test() -> None:
        door, clock = admission(max_wait=0.5)
        with pytest.raises(BusyError):
            door.check(job(TEXT), [job(TEXT)] * 10, [])  # in a second
        last = door.last["x"]
        assert (last.characters, last.seconds) == (9, pytest.approx(0.1))
        assert last.until == pytest.approx(clock.now + 0.5)
        assert door.refusal("y", 9) is None, "of another client"
        load = door._load_now("x", clock.now)
        assert door.refusal("x", 9) is last.error and door._load_now("x", clock.now) == pytest.approx(load + 0.05)
        clock.now = last.until
        assert door.refusal("x", 9) is None and not door.last

    run(test)


def test_searches_at_once() -> None:
    """Two searches: who comes waits for the one that ends first, and for half of the queue."""

    async def test() -> None:
        door, clock = admission(max_wait=0.5)
        running = [Search(Batch([], None, 100.0), clock.now - 0.2, seconds) for seconds in (0.6, 0.9)]
        assert [search.remaining(clock.now) for search in running] == [pytest.approx(0.4), pytest.approx(0.7)]
        assert running[0].remaining(clock.now + 9) == 0.0
        door.check(job(TEXT), [], running, parallel=2)
        door.check(job(TEXT), [], running[1:], parallel=2)
        with pytest.raises(BusyError) as caught:
            door.check(job(TEXT), [job(TEXT)] * 10, running, parallel=2)
        assert "in about 0.9 seconds" in str(caught.value)
        with pytest.raises(BusyError) as caught:
            door.check(job(TEXT), [job(TEXT)] * 20, running[:1], parallel=2)
        assert "in about 1.0 seconds" in str(caught.value), "the other search has ended"
        door.capacity = 20
        with pytest.raises(BusyError) as caught:
            door.check(job(TEXT), [job(TEXT)] * 20, running, parallel=2)
        assert caught.value.retry_after == pytest.approx(0.4 + 20 * 0.1 / 2)

    run(test)


def test_a_client_waits_for_no_more_of_another_than_it_has_itself() -> None:
    """Beside a flood of one client, another that sends one text at a time is admitted."""

    async def test() -> None:
        door, clock = admission(max_wait=0.5)
        flood = [job(TEXT) for _ in range(90)]  # nine seconds
        with pytest.raises(BusyError):
            door.check(job(TEXT), flood, [])
        assert door.check(job(TEXT, client="y"), flood, []) is None
        assert door._queue_time(job(TEXT, client="y"), 0.1, flood) == 0.0, "in the next batch"
        earlier = [job(TEXT, client="y") for _ in range(10)]
        assert door._queue_time(job(TEXT, client="y"), 0.1, [*flood, *earlier]) == pytest.approx(2.0), "eleven of each"
        door.loads = {"x": (30.0, clock.now), "y": (0.4, clock.now)}
        assert door._limit("x", 0.5, clock.now, 1) == pytest.approx(0.25)
        assert door._limit("y", 0.5, clock.now, 1) == 0.5, "it asks for less than its half"
        door.loads["y"] = (0.6, clock.now)
        assert door._limit("y", 0.5, clock.now, 1) == pytest.approx(0.25)

    run(test)


def test_a_full_queue_has_room_for_who_has_less_in_it() -> None:
    async def test() -> None:
        door, _ = admission(capacity=4)
        waiting = [job(TEXT) for _ in range(3)] + [job(TEXT, client="y")]
        waiting[1].arrived += 1.0
        with pytest.raises(BusyError):
            door.check(job(TEXT), waiting, [])
        assert door.check(job(TEXT, client="z"), waiting, []) is waiting[1], "the newest of the one with the most"
        assert isinstance(waiting[1].done.exception(), BusyError)
        two = [job(TEXT), job(TEXT), job(TEXT, client="y"), job(TEXT, client="y")]
        with pytest.raises(BusyError):
            door.check(job(TEXT, client="y"), two, [])
        assert door.check(job(TEXT, client="z"), two, []) in two

    run(test)


def test_clients_that_have_gone_are_forgotten() -> None:
    async def test() -> None:
        door, clock = admission()
        for number in range(1_000):
            door.check(job(TEXT, client=str(number)), [], [])
        clock.now += 60.0
        door.check(job(TEXT, client="new"), [], [])
        assert list(door.loads) == ["new"]

    run(test)
