"""Admission control: a request is admitted if its search begins soon enough.

A request waits for the batch that is being searched, and for the batches that are filled by the requests before it. It
may wait for `ServeSettings.max_wait`; that absorbs bursts. Under lasting overload a long queue serves nobody: it stays
full, and every request that is admitted waits for all of it (Nichols and Jacobson, "Controlling Queue Delay", 2012). So
a request may wait no longer than two batches of other requests take to arrive: the later requests fill a batch just as
well, and wait less. The higher the load, the shorter the wait of admitted requests.

Admission is as fair as the queue: clients take turns, so a request waits for no more of another client's requests than
its own client has waiting; only clients that ask for more than their share meet the shorter wait; and where the queue
is full, a client with fewer waiting requests takes the place of the last one of the client that has the most.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from weft.apps.serve.errors import BusyError
from weft.apps.serve.queueing import Batch, Job, Rates

ARRIVAL_SECONDS = 2.0
"""The time constant of the average of arrivals: overload that lasts for less is a burst."""
MAX_SHARE = 0.25
"""The largest fraction of a batch that one request adds to the arrivals: one long request is not overload."""
ALONE = 5.0
"""How many times longer a request may wait whose client has no other one waiting, and asks for no more than its share:
it waits for others, not for itself."""
MAX_CLIENTS = 1_000
"""Clients whose load is remembered, unless more are active."""
IDLE = 0.001
"""The load below which a client does not count as active."""
MIN_SHARE = 0.5
"""Fraction of a batch's time within which a request is always admitted. With less, a batch that ends earlier than
expected is followed by one that is not full."""


class Search(NamedTuple):
    """A batch that is being searched."""

    batch: Batch
    started: float
    seconds: float
    """Expected duration; 0 if unknown."""

    def remaining(self, now: float) -> float:
        return max(self.started + self.seconds - now, 0.0)


class Refusal(NamedTuple):
    """A refused request, the time until which similar requests are refused, and the error."""

    characters: int
    seconds: float
    """Seconds of search counted as its arrival; capped for a long request."""
    until: float
    error: BusyError


class Admission:
    """Admits the requests of one queue."""

    def __init__(
        self, rates: Rates, *, capacity: int, max_wait: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``capacity``: requests that may wait."""
        self.rates = rates
        self.capacity = capacity
        self.max_wait = max_wait
        self.clock = clock
        self.last: dict[str, Refusal] = {}
        """The last refusal of each client, as long as nothing has left the queue since."""
        self.loads: dict[str, tuple[float, float]] = {}
        """The load of each client, and the time of its last arrival."""

    def check(self, job: Job, waiting: Sequence[Job], running: Sequence[Search], *, parallel: int = 1) -> Job | None:
        """Count the arrival of a job; `BusyError` if too many others wait, or if it would wait for too long.

        ``parallel``: number of batches searched concurrently. Returns the waiting job whose place it takes, if any.
        """
        now = self.clock()
        own, batch = self.rates.seconds(job), self.rates.batch_time(job)
        counted = min(own, MAX_SHARE * batch)
        self._count(job.client, counted, now)
        remaining = min(search.remaining(now) for search in running) if len(running) >= parallel else 0.0
        replaced = _last_of_the_largest(job, waiting) if len(waiting) >= self.capacity else None
        if len(waiting) >= self.capacity and replaced is None:
            retry_after = remaining + sum(map(self.rates.seconds, waiting)) / parallel
            error = self._full(retry_after)
            self.last[job.client] = Refusal(0, counted, math.inf, error)
            raise error
        queue = self._queue_time(job, own, waiting) / parallel
        shared = batch if job.batch_key is not None or not batch else max(batch, self.rates.batch_seconds)
        limit = max(self._limit(job.client, shared, now, parallel), own)  # one that is short itself waits for batches
        if limit == self.max_wait and all(other.client != job.client for other in waiting):
            limit *= ALONE
        if queue + min(remaining, self.rates.batch_seconds) > limit:  # one long search is not overload
            wait = queue + remaining
            message = f"a search would begin in about {wait:.1f} seconds; try again later"
            error = BusyError(message, retry_after=wait - limit)
            if job.plain:
                self.last[job.client] = Refusal(job.characters, counted, now + wait - limit, error)
            raise error
        if replaced is not None:
            replaced.fail(self._full(remaining + queue))
        return replaced

    def _full(self, retry_after: float) -> BusyError:
        return BusyError(f"{self.capacity} requests are already waiting; try again later", retry_after=retry_after)

    def refusal(self, client: str, characters: int) -> BusyError | None:
        """The error for a plain request if it follows from its client's last refusal; its arrival is counted."""
        last = self.last.get(client)
        if last is None or characters < last.characters:
            return None
        now = self.clock()
        if now >= last.until:
            del self.last[client]
            return None
        self._count(client, last.seconds, now)
        return last.error

    def _queue_time(self, job: Job, own: float, waiting: Sequence[Job]) -> float:
        """Seconds of the batches before that of a job.

        Jobs take turns row by row, so a job waits for no more rows of another one than it has itself; and clients do,
        so it waits for no more rows of another client than its own client has waiting, with this job.
        """
        rows, others, same_key = max(len(job.rows), 1), 0.0, 0.0
        before = rows + sum(_remaining(other) for other in waiting if other.client == job.client)
        by_client = sorted(waiting, key=lambda other: other.client)
        for client, jobs in groupby(by_client, key=lambda other: other.client):
            listed = list(jobs)
            turns = 1.0 if client == job.client else min(before / sum(map(_remaining, listed)), 1.0)
            for other in listed:
                seconds = turns * self.rates.seconds(other) * min(rows / _remaining(other), 1.0)
                if other.batch_key is not None and other.batch_key == job.batch_key:
                    same_key += seconds
                else:
                    others += seconds
        batch = self.rates.batch_time(job)
        return others + batch * math.floor((same_key + min(own, MAX_SHARE * batch)) / batch) if batch else others

    def _limit(self, client: str, batch: float, now: float, parallel: int) -> float:
        """Seconds that a request of a client may wait; ``batch``: seconds of its batch.

        The load is that of all clients; for one that asks for no more than its share, it is its own.
        """
        loads = {name: self._load_now(name, now) / parallel for name in self.loads}
        own, active = loads.get(client, 0.0), sum(load > IDLE for load in loads.values())
        load = own if own <= 1.0 / max(active, 1) else sum(loads.values())
        return min(max(2.0 / load, MIN_SHARE) * batch, self.max_wait) if load and batch else self.max_wait

    def _count(self, client: str, seconds: float, now: float) -> None:
        self.loads[client] = (self._load_now(client, now) + seconds / ARRIVAL_SECONDS, now)
        if len(self.loads) > MAX_CLIENTS:
            self.loads = {name: load for name, load in self.loads.items() if self._load_now(name, now) > IDLE}

    def _load_now(self, client: str, now: float) -> float:
        """Seconds of a client's searches that arrive per second: an average whose weights decay with time."""
        load, at = self.loads.get(client, (0.0, now))
        return load * math.exp((at - now) / ARRIVAL_SECONDS)


def _remaining(job: Job) -> int:
    """Rows of a job that wait; one without rows counts as one."""
    return max(len(job.rows) - job.taken, 1)


def _last_of_the_largest(job: Job, waiting: Sequence[Job]) -> Job | None:
    """The newest job of the client that has the most waiting, if it has at least two more than the client of a job."""
    counts = Counter(other.client for other in waiting)
    client, most = max(counts.items(), key=lambda item: item[1])
    if most < counts[job.client] + 2:
        return None
    return max((other for other in waiting if other.client == client), key=lambda other: other.arrived)
