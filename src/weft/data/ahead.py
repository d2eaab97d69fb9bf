"""The batches of each step, drawn from a stream, and on a GPU made by a thread while the step before is computed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple, TypeVar

from weft.data.batches import BatchStream, Position
from weft.data.store import Batch

Item = TypeVar("Item")


class Drawn(NamedTuple):
    """What one step trains on."""

    step: int
    epoch: int
    """Of its first batch."""
    batches: list[Batch]
    """Those of this worker."""
    numbers: list[int]
    """Their places among all batches of the step."""
    source_tokens: int
    """Of all batches of the step, whoever makes them."""
    target_tokens: int
    position: Position
    """After it."""

    @classmethod
    def of(cls, batches: list[Batch]) -> Drawn:
        """A first step on given batches."""
        source_tokens = sum(batch.source.layout.total for batch in batches)
        target_tokens = sum(batch.target.layout.total for batch in batches)
        return cls(1, 0, batches, list(range(len(batches))), source_tokens, target_tokens, Position())


def draw(stream: BatchStream, *, first_step: int, each: int, rank: int = 0, workers: int = 1) -> Iterator[Drawn]:
    """Step after step, ``each`` batches a step shared out among the workers."""
    for step in count(first_step):
        begun = stream.position
        planned = stream.take(step, each)
        own = list(range(rank, each, workers))
        yield Drawn(
            step=step,
            epoch=begun.epoch if begun.stage == stream.position.stage else 0,
            batches=[planned[number].make() for number in own],
            numbers=own,
            source_tokens=sum(one.source_tokens for one in planned),
            target_tokens=sum(one.target_tokens for one in planned),
            position=stream.position,
        )


def ahead(items: Iterator[Item], depth: int = 4) -> Iterator[Item]:
    """The same items, made by a thread up to ``depth`` of them before they are asked for, and one more."""
    ready: queue.Queue[tuple[Item | None, BaseException | None, bool]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(entry: tuple[Item | None, BaseException | None, bool]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((item, None, False)):
                    return
            put((None, None, True))
        except BaseException as error:
            put((None, error, True))

    thread = threading.Thread(target=work, name="weft-batches", daemon=True)
    thread.start()
    try:
        while True:
            item, error, ended = ready.get()
            if error is not None:
                raise error
            if ended:
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
