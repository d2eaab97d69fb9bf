"""Requests at a time, and the bytes of their bodies: a client that has less than the others comes first."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from weft.apps.serve.active_requests import COPIES, ActiveRequests
from weft.apps.serve.errors import BusyError


def test_who_has_its_share_is_refused() -> None:
    active = ActiveRequests(3, 1000)
    with ExitStack() as stack:
        for client in "aab":
            stack.enter_context(active.enter(client))
        with pytest.raises(BusyError, match="3 requests are being answered; try again later"), active.enter("a"):
            pass
        stack.enter_context(active.enter("b"))
        stack.enter_context(active.enter("c"))
        assert active.requests == {"a": 2, "b": 2, "c": 1}
    assert not active.requests and not active.bytes


def test_the_bytes_of_bodies() -> None:
    """One client may hold half of them; a single body is received in any case."""
    active = ActiveRequests(10, 100 * COPIES)
    with active.enter("a") as one, active.enter("a") as second, active.enter("b") as other:
        one.receive(30)
        one.receive(20)
        with pytest.raises(BusyError, match="too many bytes of requests"):
            second.receive(1)
        other.receive(40)
        with active.enter("c") as third, pytest.raises(BusyError):
            third.receive(11)
        assert active.total_bytes == 90
    assert active.total_bytes == 0 and not active.bytes
    with active.enter("a") as only:
        only.receive(1_000)


def test_refusals_of_a_flood_are_delayed() -> None:
    active = ActiveRequests(1_000, 100)
    with ExitStack() as stack:
        stack.enter_context(active.enter("b"))
        for _ in range(101):
            stack.enter_context(active.enter("a"))
        assert (active.delay("a"), active.delay("b"), active.delay("c")) == (pytest.approx(1.0), 0.0, 0.0)
        for _ in range(800):
            stack.enter_context(active.enter("a"))
        assert active.delay("a") == 5.0
