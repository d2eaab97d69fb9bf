"""The requests that wait for a model: a queue, fair between clients, from which batches are taken.

A `Job` is what one request asks of a model: an operation on some rows (texts). Rows of jobs with the same `batch_key`
are searched together. Clients take turns, and so do the jobs of a client, row by row: a job of a thousand rows delays
a job of one row by a batch, not by a thousand rows. A batch holds as many rows as are estimated to take
`ServeSettings.batch_seconds` (`Rates`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from weft.apps.serve.errors import ServiceError

MAX_RATES = 64
"""Kinds of searches whose speed is remembered."""
FIRST_BATCH = 512
"""Tokens of the first batch of a kind of search, whose speed is not known yet."""
SMOOTHING = 0.3
FIRST_SPEED = 5e9
"""Multiplications per second of a model whose speed is not known yet."""
MIN_MEASURED = 0.1
"""Seconds; shorter batches say little about the speed of multiplications."""
REMAINDER = 1.25
"""A batch may be larger by this factor if nothing is left waiting then."""
SHARED = 0.5
"""The share of its budget that a batch gets in which the rows of other clients stand beside those of a flood."""
FULL = 0.7
"""The share of its budget at which a batch counts as full."""
Cost = Callable[[str, str], float]
"""The share of a full batch that a row takes, by the key of its job and its text."""


class Job:
    """A request to a model, and its results so far."""

    def __init__(
        self,
        op: str,
        payload: dict[str, Any],
        *,
        rows: Sequence[str] = (),
        batch_key: str | None = None,
        client: str = "",
        on_event: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """``rows``: texts, each of which has a result; without a ``batch_key`` they are sent together, alone.

        ``on_event``: is given the events of a stream.
        """
        self.op = op
        self.payload = payload
        self.rows = rows
        self.batch_key = batch_key
        self.client = client
        self.on_event = on_event
        self.work = 1.0
        """Estimated multiplications: of a job that is searched alone, or of its longest row."""
        self.plain = False
        """Whether the request holds nothing but a text: then others like it can be refused unread."""
        self.characters = sum(map(len, rows))
        self.results: list[bytes] = [b"null"] * len(rows)
        self.done: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self.taken = 0
        """Rows that have left the queue."""
        self.missing = len(rows)
        """Rows that have no result yet."""
        self.attempts = 0
        """Number of workers that ended while they had rows of this job."""
        self.lost_worker: object = None
        """The last of these workers."""
        self.arrived = time.monotonic()
        self.started: float | None = None
        self.abandoned = False

    def finish(self, results: list[bytes]) -> None:
        if not self.done.done():
            self.done.set_result(results)

    def fail(self, error: ServiceError) -> None:
        self.abandoned = True
        if not self.done.done():
            self.done.set_exception(error)

    def put(self, row: int, result: bytes) -> None:
        """The result of one row."""
        self.results[row] = result
        self.missing -= 1
        if not self.missing:
            self.finish(self.results)


class Item(NamedTuple):
    """One row of a job in a batch."""

    job: Job
    row: int


class Batch(NamedTuple):
    """One message to a worker: rows of several jobs, or one job that is searched alone."""

    items: list[Item]
    alone: Job | None
    cost: float
    """The estimated share of a full batch."""

    def jobs(self) -> set[Job]:
        return {self.alone} if self.alone is not None else {item.job for item in self.items}


class FairQueue:
    """Jobs by client; clients and their jobs take turns."""

    def __init__(self) -> None:
        self.clients: OrderedDict[str, deque[Job]] = OrderedDict()
        self.arrival = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self.clients.values()))

    def __iter__(self) -> Iterator[Job]:
        return (job for jobs in self.clients.values() for job in jobs)

    def add(self, job: Job) -> None:
        """A new job at the end of its client's."""
        self.clients.setdefault(job.client, deque()).append(job)
        self.arrival.set()

    def return_first(self, jobs: Sequence[Job]) -> None:
        """Jobs that have to be sent again, before all others."""
        for job in jobs:
            self.clients.setdefault(job.client, deque()).appendleft(job)
            self.clients.move_to_end(job.client, last=False)
        self.arrival.set()

    def remove(self, job: Job) -> None:
        jobs = self.clients.get(job.client, deque())
        if job in jobs:
            jobs.remove(job)
        self._drop_empty()

    def waiting_cost(self, cost: Cost, limit: float, key: str | None = None) -> float:
        """The estimated batches that the waiting rows fill, or those of one key, counted up to a limit."""
        total = 0.0
        for job in self:
            if job.batch_key is None:
                if key is None:
                    return limit
                continue
            if key is not None and (job.batch_key != key or job.attempts):
                continue
            for row in job.rows[job.taken :]:
                total += cost(job.batch_key, row)
                if total >= limit:
                    return limit
        return total

    def take(self, cost: Cost, budget: float = 1.0) -> Batch | None:
        """The rows to search next; ``budget``: that of a full batch, in units of ``cost``."""
        self._drop_empty()
        if not self.clients:
            return None
        first = next(iter(self.clients.values()))[0]
        if first.batch_key is None or first.attempts:
            self._remove_turn(first)
            items = [Item(first, row) for row in range(first.taken, len(first.rows))]
            return Batch(items if first.batch_key is not None else [], None if first.batch_key else first, 1.0)
        key, limit, most = first.batch_key, budget, REMAINDER * budget
        if self.waiting_cost(cost, most, key) < most:
            limit = most
        items, total = self._fill(key, cost, self._shared(key, cost, limit))
        self._drop_empty()
        return Batch(items, None, total)

    def _shared(self, key: str, cost: Cost, limit: float) -> float:
        """The budget of a batch that several clients share, one of whom would fill it alone: half as many, or twice
        those of the others, who take turns with it. They have waited for a batch of that client already."""
        costs = []
        for jobs in self.clients.values():
            same = (job for job in jobs if job.batch_key == key and not job.attempts)
            total = 0.0
            for share in (cost(key, row) for job in same for row in job.rows[job.taken :]):
                total += share
                if total >= limit:
                    break
            costs.append(total)
        others = sum(costs) - max(costs)
        return min(max(SHARED * limit, 2 * others), limit) if others and max(costs) >= limit else limit

    def _fill(self, key: str, cost: Cost, budget: float) -> tuple[list[Item], float]:
        items: list[Item] = []
        total = 0.0
        while True:
            before = len(items)
            for client in list(self.clients):
                jobs = self.clients[client]
                job = next((job for job in jobs if job.batch_key == key and not job.attempts), None)
                if job is None:
                    continue
                share = cost(key, job.rows[job.taken])
                if items and total + share > budget:
                    return items, total
                total += share
                items.append(Item(job, job.taken))
                job.taken += 1
                jobs.remove(job)
                if job.taken < len(job.rows):
                    jobs.append(job)  # behind the other jobs of this client
                self.clients.move_to_end(client)
            if len(items) == before:
                return items, total

    def _remove_turn(self, job: Job) -> None:
        self.clients[job.client].remove(job)
        self.clients.move_to_end(job.client)
        self._drop_empty()

    def _drop_empty(self) -> None:
        for client in [client for client, jobs in self.clients.items() if not jobs]:
            del self.clients[client]


class Speed(NamedTuple):
    """The speed of a kind of search: a row takes as long as its tokens, and never less than a short row."""

    tokens: float
    """Source tokens per second, of long rows."""
    rows: float
    """Rows per second, of short ones."""

    def seconds(self, tokens: float) -> float:
        return max(tokens / self.tokens, 1.0 / self.rows)


class Rates:
    """The speed of each kind of search, and tokens per character, estimated from the batches so far.

    The time of a row is not proportional to its tokens: with one number, a batch of short texts after a flood of long
    ones would take ten times as long as it may. What is not known yet is taken to be slow.
    """

    def __init__(self, *, batch_tokens: float, batch_seconds: float, deadline: float = math.inf) -> None:
        """``deadline``: seconds after which any job is given up."""
        self.deadline = deadline
        self.batch_tokens = batch_tokens
        self.batch_seconds = batch_seconds
        self.speeds: OrderedDict[str, Speed] = OrderedDict()
        self.seconds_alone: dict[str, float] = {}
        """Seconds of jobs that are searched alone and whose work is not known, by operation."""
        self.tokens_per_character = 0.3
        self.speed = FIRST_SPEED
        """Multiplications per second, as `Job.work` counts them."""

    def tokens(self, text: str) -> float:
        """The tokens of a text, estimated."""
        return len(text) * self.tokens_per_character + 1.0

    def cost(self, key: str, text: str) -> float:
        """The share of a full batch that a row takes."""
        return self._share(key, self.tokens(text))

    def _share(self, key: str, tokens: float) -> float:
        if (speed := self.speeds.get(key)) is None:
            return tokens / min(FIRST_BATCH, self.batch_tokens)
        return max(speed.seconds(tokens) / self.batch_seconds, tokens / self.batch_tokens)

    def seconds(self, job: Job) -> float:
        """Expected seconds of the waiting rows of a job; 0 if unknown."""
        if job.batch_key is None:
            return self._seconds_alone(job)
        speed = self.speeds.get(job.batch_key)
        return (len(job.rows) - job.taken) * speed.seconds(self._mean_tokens(job)) if speed else 0.0

    def batch_time(self, job: Job) -> float:
        """Expected seconds of a full batch of such jobs; 0 if unknown."""
        if job.batch_key is None:
            return self._seconds_alone(job)
        if (speed := self.speeds.get(job.batch_key)) is None:
            return 0.0
        tokens = self._mean_tokens(job)
        return speed.seconds(tokens) / self._share(job.batch_key, tokens)

    def expected(self, batch: Batch) -> float:
        """Expected seconds of a batch; 0 if unknown."""
        if batch.alone is not None:
            return self._seconds_alone(batch.alone)
        key = batch.items[0].job.batch_key
        speed = self.speeds.get(key) if key is not None else None
        return sum(map(speed.seconds, self.tokens_of(batch))) if speed else 0.0

    def tokens_of(self, batch: Batch) -> list[float]:
        """The tokens of each row of a batch, estimated."""
        return [self.tokens(item.job.rows[item.row]) for item in batch.items]

    def _mean_tokens(self, job: Job) -> float:
        return job.characters * self.tokens_per_character / max(len(job.rows), 1) + 1.0

    def _seconds_alone(self, job: Job) -> float:
        seconds = self.seconds_alone.get(job.op, 0.0) if job.work <= 1.0 else job.work / self.speed
        return min(seconds, self.deadline)

    def measured(self, key: str, tokens: Sequence[float], seconds: float) -> None:
        """Record how long a batch with rows of so many tokens took.

        One that is not full gives only a lower bound on the speed of a full one.
        """
        seconds = max(seconds, 1e-4)
        is_full = sum(self._share(key, row) for row in tokens) >= FULL or seconds >= self.batch_seconds
        known = self.speeds.pop(key, None)
        if known is None and not is_full:
            return
        if known is None:
            self.speeds[key] = Speed(sum(tokens) / seconds, len(tokens) / seconds)
        else:
            expected = [known.seconds(row) for row in tokens]
            faster = sum(expected) / seconds
            weight = SMOOTHING if is_full else float(faster > 1.0)
            long = sum(time for row, time in zip(tokens, expected, strict=True) if row * known.rows >= known.tokens)
            short = sum(time for row, time in zip(tokens, expected, strict=True) if row * known.rows <= known.tokens)
            self.speeds[key] = Speed(
                known.tokens * (1.0 + weight * (faster - 1.0) * long / sum(expected)),
                known.rows * (1.0 + weight * (faster - 1.0) * short / sum(expected)),
            )
        if len(self.speeds) > MAX_RATES:
            self.speeds.popitem(last=False)

    def measured_alone(self, op: str, seconds: float) -> None:
        """A job that was searched alone took this long."""
        known = self.seconds_alone.get(op, seconds)
        self.seconds_alone[op] = known + SMOOTHING * (seconds - known)

    def measured_work(self, work: float, seconds: float) -> None:
        """A batch or a job of this many multiplications took this long."""
        if work > 1.0 and seconds >= MIN_MEASURED:
            self.speed += SMOOTHING * (work / seconds - self.speed)
