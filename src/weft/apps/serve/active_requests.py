"""The requests that are being received or answered: how many a client may have, and how many bytes they may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from weft.apps.serve.errors import BusyError

RETRY_SECONDS = 2.0
DELAY, LONGEST_DELAY = 0.01, 5.0
"""Seconds after which a refusal is sent, for every request of that client; and at most."""
CLIENT_SHARE = 0.5
"""Part of the bytes of all bodies that one client may hold."""
COPIES = 6
"""Bytes that a byte of a body takes until its request is answered: as it came, as text (up to four), for the worker."""


class ActiveRequests:
    """Counts requests and the bytes of their bodies by client. A client that has less than the others comes first."""

    def __init__(self, limit: int, max_bytes: float) -> None:
        """``limit``: requests at a time; ``max_bytes``: bytes that their bodies may take."""
        self.limit = limit
        self.max_bytes = max_bytes / COPIES
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.total_bytes = 0

    @contextmanager
    def enter(self, client: str) -> Iterator[ActiveRequest]:
        """A request of a client, until it is answered; `BusyError` if there are too many, and its client has its
        share of them."""
        total = self.requests.total()
        if total >= self.limit and self.requests[client] >= total / max(len(self.requests), 1):
            raise BusyError(f"{total} requests are being answered; try again later", retry_after=RETRY_SECONDS)
        request = ActiveRequest(self, client)
        self.requests[client] += 1
        try:
            yield request
        finally:
            self._drop(self.requests, client, 1)
            self._drop(self.bytes, client, request.size)
            self.total_bytes -= request.size

    def delay(self, client: str) -> float:
        """Seconds to wait before a refusal is sent to a client.

        A client that floods the service, and sends again whenever it is refused, would otherwise take the time of the
        others; one that sends a few requests does not notice.
        """
        return min(DELAY * max(self.requests[client] - 1, 0), LONGEST_DELAY)

    @staticmethod
    def _drop(counts: Counter[str], client: str, amount: int) -> None:
        counts[client] -= amount
        if counts[client] <= 0:
            del counts[client]


class ActiveRequest:
    """One of them."""

    def __init__(self, active: ActiveRequests, client: str) -> None:
        self.active = active
        self.client = client
        self.size = 0

    def receive(self, size: int) -> None:
        """Count the bytes of a part of its body; `BusyError` if there are too many of all requests.

        A single body is received, whatever its size: it has a limit of its own.
        """
        active = self.active
        others, own = active.total_bytes - self.size, active.bytes[self.client] - self.size
        if size and (
            (others and active.total_bytes + size > active.max_bytes)
            or (own and active.bytes[self.client] + size > CLIENT_SHARE * active.max_bytes)
        ):
            raise BusyError("too many bytes of requests are being received; try again later", retry_after=RETRY_SECONDS)
        self.size += size
        active.bytes[self.client] += size
        active.total_bytes += size
