"""The batches of each step, drawn from a stream, and on a GPU made by a thread while the step before is computed."""

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
NAP = 0.002
"""Seconds between two looks at whether there is room."""
NOTHING = object()


class StepBatches(NamedTuple):
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
    def of(cls, batches: list[Batch]) -> StepBatches:
        """A first step on given batches."""
        source_tokens = sum(batch.source.layout.total for batch in batches)
        target_tokens = sum(batch.target.layout.total for batch in batches)
        return cls(1, 0, batches, list(range(len(batches))), source_tokens, target_tokens, Position())


def draw_steps(
    stream: BatchStream, *, first_step: int, batches_per_step: int, rank: int = 0, world_size: int = 1
) -> Iterator[StepBatches]:
    """Step after step, ``batches_per_step`` batches a step shared out among the workers."""
    for step in count(first_step):
        begun = stream.position
        planned = stream.take(step, batches_per_step)
        own = list(range(rank, batches_per_step, world_size))
        yield StepBatches(
            step=step,
            epoch=begun.epoch if begun.stage == stream.position.stage else 0,
            batches=[planned[number].make() for number in own],
            numbers=own,
            source_tokens=sum(one.source_tokens for one in planned),
            target_tokens=sum(one.target_tokens for one in planned),
            position=stream.position,
        )


def prefetch(items: Iterator[Item], depth: int = 8) -> Iterator[Item]:
    """The same items, made by a thread up to ``depth`` of them before they are asked for.

    Whoever takes an item wakes nobody: the thread looks by itself, every `NAP`, whether there is room. A queue would
    hand it the interpreter at that very moment, and the GPU would wait while the next batch is made.
    """
    ready: deque[Item] = deque()
    ended: list[BaseException | None] = []
    stopped = threading.Event()

    def work() -> None:
        try:
            while True:
                while len(ready) >= depth:
                    if stopped.wait(NAP):
                        return
                item = next(items, NOTHING)
                if item is NOTHING or stopped.is_set():
                    ended.append(None)
                    return
                ready.append(item)  # type: ignore[arg-type]
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work, name="weft-batches", daemon=True)
    thread.start()
    try:
        while True:
            while not ready and not ended:
                time.sleep(NAP / 10)
            if ready:
                yield ready.popleft()
            elif ended[0] is not None:
                raise ended[0]
            else:
                return
    finally:
        stopped.set()
        thread.join()
