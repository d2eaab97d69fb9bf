"""Admission control: a request is admitted if its search begins soon enough.

A request waits for the batch that is being searched, and for the batches that are filled by the requests before it. It
may wait for `ServeSettings.max_wait`; that absorbs bursts. Under lasting overload a long queue serves nobody: it stays
full, and every request that is admitted waits for all of it (Nichols and Jacobson, "Controlling Queue Delay", 2012). So
a request may wait no longer than two batches of other requests take to arrive: the later requests fill a batch just as
well, and wait less. The higher the load, the shorter the wait of admitted requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.apps.serve.errors import BusyError
from weft.apps.serve.queueing import Batch, Job, Rates

ARRIVAL_SECONDS = 2.0
"""The time constant of the average of arrivals: overload that lasts for less is a burst."""
MAX_SHARE = 0.25
"""The largest fraction of a batch that one request adds to the arrivals: one long request is not overload."""
MIN_SHARE = 0.2
"""Fraction of a batch's time within which a request is always admitted: the accuracy of the estimates."""


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
        self.last: Refusal | None = None
        """The last refusal, as long as nothing has left the queue since."""
        self._load, self._load_at = 0.0, 0.0

    def check(self, job: Job, waiting: Sequence[Job], running: Sequence[Search], *, parallel: int = 1) -> None:
        """Count the arrival of a job; `BusyError` if too many others wait, or if it would wait for too long.

        ``parallel``: number of batches searched concurrently.
        """
        now = self.clock()
        own, batch = self.rates.seconds(job), self.rates.batch_time(job)
        counted = min(own, MAX_SHARE * batch)
        self._count(counted, now)
        remaining = min(search.remaining(now) for search in running) if len(running) >= parallel else 0.0
        if len(waiting) >= self.capacity:
            retry_after = remaining + sum(map(self.rates.seconds, waiting)) / parallel
            error = BusyError(f"{self.capacity} requests are already waiting; try again later", retry_after=retry_after)
            self.last = Refusal(0, counted, math.inf, error)
            raise error
        queue = self._queue_time(job, own, waiting) / parallel
        limit = max(self._limit(batch, now, parallel), own)
        if queue + min(remaining, self.rates.batch_seconds) > limit:  # one long search is not overload
            wait = queue + remaining
            message = f"a search would begin in about {wait:.1f} seconds; try again later"
            error = BusyError(message, retry_after=wait - limit)
            if job.plain:
                self.last = Refusal(job.characters, counted, now + wait - limit, error)
            raise error

    def refusal(self, characters: int) -> BusyError | None:
        """The error for a plain request if it follows from the last refusal; its arrival is counted."""
        if self.last is None or characters < self.last.characters:
            return None
        now = self.clock()
        if now >= self.last.until:
            self.last = None
            return None
        self._count(self.last.seconds, now)
        return self.last.error

    def _queue_time(self, job: Job, own: float, waiting: Sequence[Job]) -> float:
        """Seconds of the batches before that of a job.

        Jobs take turns row by row, so a job waits for no more rows of another one than it has itself.
        """
        rows, others, same_key = max(len(job.rows), 1), 0.0, 0.0
        for other in waiting:
            seconds = self.rates.seconds(other) * min(rows / max(len(other.rows) - other.taken, 1), 1.0)
            if other.batch_key is not None and other.batch_key == job.batch_key:
                same_key += seconds
            else:
                others += seconds
        batch = self.rates.batch_time(job)
        return others + batch * math.floor((same_key + min(own, MAX_SHARE * batch)) / batch) if batch else others

    def _limit(self, batch: float, now: float, parallel: int) -> float:
        """Seconds that a request may wait; ``batch``: seconds of its batch."""
        load = self._load_now(now) / parallel
        return min(max(2.0 / load, MIN_SHARE) * batch, self.max_wait) if load and batch else self.max_wait

    def _count(self, seconds: float, now: float) -> None:
        self._load, self._load_at = self._load_now(now) + seconds / ARRIVAL_SECONDS, now

    def _load_now(self, now: float) -> float:
        """Seconds of searches that arrive per second: an average whose weights decay with time."""
        return self._load * math.exp((self._load_at - now) / ARRIVAL_SECONDS)
