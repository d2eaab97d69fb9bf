"""The batches of each step, and a background thread that makes them while a GPU computes the step before."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple, TypeVar

from weft.data.batching.batches import BatchStream, Position
from weft.data.store.token_store import Batch

Item = TypeVar("Item")
POLL_SECONDS = 0.002
EXHAUSTED = object()


class StepBatches(NamedTuple):
    """The batches of one step."""

    step: int
    epoch: int
    """Epoch of its first batch."""
    batches: list[Batch]
    """The batches that this worker makes."""
    numbers: list[int]
    """Their indices among all batches of the step."""
    source_tokens: int
    """Source tokens of all batches of the step, whichever worker makes them."""
    target_tokens: int
    position: Position
    """The position after the step."""

    @classmethod
    def of(cls, batches: list[Batch]) -> StepBatches:
        """A first step on the given batches."""
        source_tokens = sum(batch.source.layout.total for batch in batches)
        target_tokens = sum(batch.target.layout.total for batch in batches)
        return cls(1, 0, batches, list(range(len(batches))), source_tokens, target_tokens, Position())


def draw_steps(
    stream: BatchStream, *, first_step: int, batches_per_step: int, rank: int = 0, world_size: int = 1
) -> Iterator[StepBatches]:
    """Endless steps of `batches_per_step` batches each, of which this worker makes every `world_size`-th."""
    for step in count(first_step):
        start = stream.position
        lazy_batches = stream.take(step, batches_per_step)
        numbers = list(range(rank, batches_per_step, world_size))
        yield StepBatches(
            step=step,
            epoch=start.epoch if start.stage == stream.position.stage else 0,
            batches=[lazy_batches[number].make() for number in numbers],
            numbers=numbers,
            source_tokens=sum(batch.source_tokens for batch in lazy_batches),
            target_tokens=sum(batch.target_tokens for batch in lazy_batches),
            position=stream.position,
        )


def prefetch(items: Iterator[Item], depth: int = 8) -> Iterator[Item]:
    """Yield the items, made by a background thread up to `depth` in advance.

    Taking an item does not wake the thread, which polls every `POLL_SECONDS` whether there is space. A queue would
    switch to the thread at that moment, and the GPU would wait while the next batch is made.
    """
    ready: deque[Item] = deque()
    finished: list[BaseException | None] = []
    stopped = threading.Event()

    def work() -> None:
        try:
            while True:
                while len(ready) >= depth:
                    if stopped.wait(POLL_SECONDS):
                        return
                item = next(items, EXHAUSTED)
                if item is EXHAUSTED or stopped.is_set():
                    finished.append(None)
                    return
                ready.append(item)  # type: ignore[arg-type]
        except BaseException as error:
            finished.append(error)

    thread = threading.Thread(target=work, name="weft-batches", daemon=True)
    thread.start()
    try:
        while True:
            while not ready and not finished:
                time.sleep(POLL_SECONDS / 10)
            if ready:
                yield ready.popleft()
            elif finished[0] is not None:
                raise finished[0]
            else:
                return
    finally:
        stopped.set()
        thread.join()
