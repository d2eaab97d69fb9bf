"""Searching in a thread of its own, while the caller tokenizes what comes next and makes text of what was found.

A search on a GPU is mostly waiting: its thread needs the interpreter for moments only, but then at once, or the GPU
runs out of work. So while such a thread runs, Python switches between threads more often (`SWITCH_SECONDS`), and the
caller works in small pieces, whenever the search waits for the GPU (`give_way`).
"""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
from collections.abc import Iterator
from types import TracebackType

from weft.translation.engines.interface import Engine, EngineRequest, SearchedBatch, searched_batches

SWITCH_SECONDS = 0.00002
"""How long a thread may keep the interpreter from another one that needs it."""
MAX_WAIT_SECONDS = 0.002
"""How long other work waits for a search that does not wait for the device."""
Results = queue.SimpleQueue[SearchedBatch | BaseException | None]


class BackgroundSearch:
    """A thread that searches requests one after the other; a context manager, which ends the thread.

    When it is left early, by an error or Ctrl-C, the batch that is being searched is completed and the rest dropped.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._requests: queue.SimpleQueue[tuple[EngineRequest, Results] | None] = queue.SimpleQueue()
        self._left = threading.Event()
        context = contextvars.copy_context()  # whoever observes the caller sees what the thread does
        self._thread = threading.Thread(target=context.run, args=(self._search,), name="weft-search", daemon=True)
        self._switch_seconds = sys.getswitchinterval()
        self._idle: threading.Event | None = getattr(engine, "idle", None)

    def __enter__(self) -> BackgroundSearch:
        sys.setswitchinterval(min(SWITCH_SECONDS, self._switch_seconds))
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._left.set()
        self._requests.put(None)
        self._thread.join()
        sys.setswitchinterval(self._switch_seconds)

    def give_way(self) -> None:
        """Wait until the search waits for the device, or for a request; not for long."""
        if self._idle is not None:
            self._idle.wait(MAX_WAIT_SECONDS)

    def search(self, request: EngineRequest) -> Iterator[SearchedBatch]:
        """Begin a search when those before it are done; the results of its batches, as they come."""
        results: Results = queue.SimpleQueue()
        self._requests.put((request, results))
        return _received(results)

    def _search(self) -> None:
        while (item := self._next()) is not None and not self._left.is_set():
            request, results = item
            try:
                for batch in searched_batches(self.engine, request):
                    results.put(batch)
                    if self._left.is_set():
                        return
                results.put(None)
            except BaseException as error:  # raised again where the results are read
                results.put(error)

    def _next(self) -> tuple[EngineRequest, Results] | None:
        if self._idle is None:
            return self._requests.get()
        self._idle.set()
        item = self._requests.get()
        self._idle.clear()
        return item


def _received(results: Results) -> Iterator[SearchedBatch]:
    while (result := results.get()) is not None:
        if isinstance(result, BaseException):
            raise result
        yield result
