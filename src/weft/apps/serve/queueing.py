"""The requests that wait for a model: a queue, fair between clients, from which batches are taken.

A `Job` is what one request asks of a model: an operation on some rows (texts). Rows of jobs with the same `batch_key`
are searched together. Clients take turns, and so do the jobs of a client, row by row: a job of a thousand rows delays
a job of one row by a batch, not by a thousand rows. A batch holds as many tokens as are estimated to take
`ServeSettings.batch_seconds`.
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
    """Estimated source tokens."""

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

    def waiting_cost(self, cost: Callable[[str], float], limit: float, key: str | None = None) -> float:
        """The estimated tokens of the rows that wait, or of those of one key, counted up to a limit."""
        total = 0.0
        for job in self:
            if job.batch_key is None and key is None:
                return limit
            if key is not None and (job.batch_key != key or job.attempts):
                continue
            for row in job.rows[job.taken :]:
                total += cost(row)
                if total >= limit:
                    return limit
        return total

    def take(self, cost: Callable[[str], float], budget: Callable[[str], float]) -> Batch | None:
        """The rows to search next; ``cost``: tokens of a row, ``budget``: those of a batch with this key."""
        self._drop_empty()
        if not self.clients:
            return None
        first = next(iter(self.clients.values()))[0]
        if first.batch_key is None or first.attempts:
            self._remove_turn(first)
            items = [Item(first, row) for row in range(first.taken, len(first.rows))]
            return Batch(items if first.batch_key is not None else [], None if first.batch_key else first, 1.0)
        limit, most = budget(first.batch_key), REMAINDER * budget(first.batch_key)
        if self.waiting_cost(cost, most, first.batch_key) < most:
            limit = most
        limit = self._shared(first.batch_key, cost, limit)
        items, total = self._fill(first.batch_key, cost, limit)
        self._drop_empty()
        return Batch(items, None, total)

    def _shared(self, key: str, cost: Callable[[str], float], limit: float) -> float:
        """The tokens of a batch that several clients share, one of whom would fill it alone: half as many, or twice
        those of the others, who take turns with it. They have waited for a batch of that client already."""
        costs = []
        for jobs in self.clients.values():
            rows = (
                cost(row) for job in jobs if job.batch_key == key and not job.attempts for row in job.rows[job.taken :]
            )
            total = 0.0
            for tokens in rows:
                total += tokens
                if total >= limit:
                    break
            costs.append(total)
        others = sum(costs) - max(costs)
        return min(max(SHARED * limit, 2 * others), limit) if others and max(costs) >= limit else limit

    def _fill(self, key: str, cost: Callable[[str], float], budget: float) -> tuple[list[Item], float]:
        items: list[Item] = []
        total = 0.0
        while True:
            before = len(items)
            for client in list(self.clients):
                jobs = self.clients[client]
                job = next((job for job in jobs if job.batch_key == key and not job.attempts), None)
                if job is None:
                    continue
                tokens = cost(job.rows[job.taken])
                if items and total + tokens > budget:
                    return items, total
                total += tokens
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


class Rates:
    """Tokens per second of each kind of search, and tokens per character, estimated from the batches so far."""

    def __init__(self, *, batch_tokens: float, batch_seconds: float, deadline: float = math.inf) -> None:
        """``deadline``: seconds after which any job is given up."""
        self.deadline = deadline
        self.batch_tokens = batch_tokens
        self.batch_seconds = batch_seconds
        self.tokens_per_second: OrderedDict[str, float] = OrderedDict()
        self.seconds_alone: dict[str, float] = {}
        """Seconds of jobs that are searched alone and whose work is not known, by operation."""
        self.tokens_per_character = 0.3
        self.speed = FIRST_SPEED
        """Multiplications per second, as `Job.work` counts them."""

    def cost(self, text: str) -> float:
        """The tokens of a text, estimated."""
        return len(text) * self.tokens_per_character + 1.0

    def budget(self, key: str) -> float:
        """The tokens of a batch."""
        rate = self.tokens_per_second.get(key)
        if rate is None:
            return min(FIRST_BATCH, self.batch_tokens)
        return min(rate * self.batch_seconds, self.batch_tokens)

    def seconds(self, job: Job) -> float:
        """Expected seconds of the waiting rows of a job; 0 if unknown."""
        if job.batch_key is None:
            seconds = self.seconds_alone.get(job.op, 0.0) if job.work <= 1.0 else job.work / self.speed
            return min(seconds, self.deadline)
        tokens = job.characters * self.tokens_per_character + len(job.rows)
        return self.batch_time(job, tokens * (1 - job.taken / max(len(job.rows), 1)))

    def batch_time(self, job: Job, tokens: float | None = None) -> float:
        """Expected seconds of a full batch of such jobs, or of ``tokens`` tokens; 0 if unknown."""
        if job.batch_key is None:
            seconds = self.seconds_alone.get(job.op, 0.0) if job.work <= 1.0 else job.work / self.speed
            return min(seconds, self.deadline)
        rate = self.tokens_per_second.get(job.batch_key)
        if not rate:
            return 0.0
        return (self.budget(job.batch_key) if tokens is None else tokens) / rate

    def measured(self, key: str, tokens: float, seconds: float) -> None:
        """Record how long a batch took. One that is not full gives only a lower bound on the speed of a full one."""
        is_full = tokens >= FULL * self.budget(key) or seconds >= self.batch_seconds
        rate = tokens / max(seconds, 1e-4)
        known = self.tokens_per_second.pop(key, None)
        if known is not None:
            rate = known + SMOOTHING * (rate - known) if is_full else max(rate, known)
        elif not is_full:
            return
        self.tokens_per_second[key] = rate
        if len(self.tokens_per_second) > MAX_RATES:
            self.tokens_per_second.popitem(last=False)

    def measured_alone(self, op: str, seconds: float) -> None:
        """A job that was searched alone took this long."""
        known = self.seconds_alone.get(op, seconds)
        self.seconds_alone[op] = known + SMOOTHING * (seconds - known)

    def measured_work(self, work: float, seconds: float) -> None:
        """A batch or a job of this many multiplications took this long."""
        if work > 1.0 and seconds >= MIN_MEASURED:
            self.speed += SMOOTHING * (work / seconds - self.speed)
