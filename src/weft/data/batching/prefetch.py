"""Batches made in advance by a background thread, while a GPU computes the step before."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

Item = TypeVar("Item")
POLL_SECONDS = 0.002
EXHAUSTED = object()


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
