"""Jobs: the queue in which they wait; and that a client is answered beside a flood of another one."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from apps.serve.servers import PATIENCE, Running, settings, wait_for
from weft.apps.serve.jobs import queue_of
from weft.apps.serve.queueing import FIRST_SPEED, Job, Rates

SHAPE = {
    "parameters": 8_000_000,
    "vocabulary": 8_000,
    "width": 256,
    "feed_forward": 1024,
    "layers": 6,
    "decoder_layers": 3,
    "recurrent": False,
    "heads": {"encoder": [3, 4], "decoder": [3, 4], "cross": [3, 4]},
}


def model_with(rates: Rates) -> Any:
    costs = {"shape": SHAPE, "max_ratio": 1.5, "max_extra": 20}
    schedulers = {"batch": SimpleNamespace(rates=rates)}
    return SimpleNamespace(info={"costs": costs}, settings=settings(), schedulers=schedulers)


@pytest.mark.parametrize(
    ("op", "payload", "texts", "queue"),
    [
        ("translate", {"search": {"kind": "beam", "size": 5}}, ["a" * 60], "batch"),
        ("translate", {"search": {"kind": "beam", "size": 5}}, ["a" * 60] * 1_000, "batch"),
        ("translate", {"search": {"kind": "exact"}}, ["a"], "long"),
        ("translate", {"search": {"kind": "beam", "size": 64}}, ["a" * 60, "a" * 2_000], "long"),
        ("stream", {"search": {"kind": "beam", "size": 64, "min_length": 900}}, ["a"], "long"),
        ("stream", {"search": {"kind": "beam", "size": 5}, "prefix_ids": [1] * 900}, ["a"], "long"),
        ("heads", {"search": {"kind": "greedy"}}, ["a" * 60], "batch"),
        ("score", {"pairs": [["a", "b"]]}, ["a" * 60] * 8, "batch"),
        ("score", {"pairs": [["a", "b"]]}, ["a" * 5_000] * 64, "long"),
        ("translate", {"search": {"kind": "beam", "size": 1}, "memory": "a" * 10_001}, ["a"], "long"),
        ("tokens", {}, [], "batch"),
    ],
)
def test_long_operations_have_their_own_queue(op: str, payload: Any, texts: list[str], queue: str) -> None:
    async def test() -> None:
        rates = Rates(batch_tokens=4096, batch_seconds=0.6)
        job = Job(op, payload)
        assert queue_of(model_with(rates), job, texts) == queue
        assert job.work > 1e6 or op in ("tokens", "translate")
        rates.speed = FIRST_SPEED / 100  # of a busy machine
        assert queue_of(model_with(rates), Job(op, payload), texts) == queue

    asyncio.run(test())


def test_a_model_that_does_not_say_its_sizes() -> None:
    async def test() -> None:
        model: Any = SimpleNamespace(info={})
        assert queue_of(model, Job("translate", {}), ["a" * 5_000]) == "batch"

    asyncio.run(test())


def test_a_client_is_answered_beside_a_flood(running: Running) -> None:
    """One client sends long requests on 40 connections, again and again; another one text at a time."""
    ended = threading.Event()
    statuses: list[int] = []

    def flood() -> None:
        with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
            while not ended.is_set():
                statuses.append(client.post("/api/translate", json={"text": ["a b c d e"] * 50}).status_code)

    threads = [threading.Thread(target=flood, daemon=True) for _ in range(40)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(statuses) > 20)
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=running.url, timeout=PATIENCE, transport=transport) as other:
            answers = [other.post("/api/translate", json={"text": "a b"}) for _ in range(8)]
            assert other.get("/health").status_code == 200
        assert [answer.status_code for answer in answers] == [200] * 8, [answer.text for answer in answers]
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert set(statuses) <= {200, 429}
