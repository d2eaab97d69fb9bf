"""Searching in a background thread, while the caller tokenizes the next request and decodes the previous results.

A search on a GPU mostly waits. Its thread needs the interpreter only for moments, but then immediately, or the GPU runs
out of work. So while such a thread runs, Python switches between threads more often (`SWITCH_SECONDS`), and the caller
works in small pieces, whenever the search waits for the GPU (`give_way`).
"""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from weft.translation.engines.interface import Engine, EngineRequest, SearchedBatch, searched_batches

if TYPE_CHECKING:
    from weft.translation.engines.search_ahead import SearchAhead

SWITCH_SECONDS = 0.00002
"""How long a thread may keep the interpreter from another one that needs it."""
MAX_WAIT_SECONDS = 0.002
"""How long other work waits for a search that does not wait for the device."""
Results = queue.SimpleQueue[SearchedBatch | BaseException | None]
Item = tuple[EngineRequest, Results, "SearchAhead | None"]


class BackgroundSearch:
    """A thread that searches requests one after the other; a context manager, which ends the thread.

    When it is left early, by an error or Ctrl-C, the batch that is being searched is completed and the rest dropped.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._requests: queue.SimpleQueue[tuple[EngineRequest, Results] | None] = queue.SimpleQueue()
        self._upcoming: list[Item | None] = []
        """The item after the one that is searched, if it was taken from the queue already."""
        self._left = threading.Event()
        context = contextvars.copy_context()  # observers of the caller's activity see that of the thread
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
            request, results, ahead = item
            try:
                if ahead is None:
                    batches = searched_batches(self.engine, request)
                else:
                    batches = self.engine.batches(request, ahead, self._prepare_upcoming)  # type: ignore[attr-defined]
                for batch in batches:
                    results.put(batch)
                    if self._left.is_set():
                        return
                results.put(None)
            except BaseException as error:  # raised again where the results are read
                results.put(error)

    def _next(self) -> Item | None:
        """The next request and, if the engine encodes batches ahead, its search; None: there are no more."""
        if self._upcoming:
            return self._upcoming.pop()
        if self._idle is not None:
            self._idle.set()
        item = self._requests.get()
        if self._idle is not None:
            self._idle.clear()
        return self._with_search(item)

    def _prepare_upcoming(self) -> None:
        """Encode the first batch of the next request, if there is one by now."""
        with suppress(queue.Empty):
            item = self._with_search(self._requests.get_nowait())
            self._upcoming.append(item)
            if item is not None and item[2] is not None:
                item[2].prepare()

    def _with_search(self, item: tuple[EngineRequest, Results] | None) -> Item | None:
        begin = getattr(self.engine, "begin", None)
        return None if item is None else (*item, None if begin is None else begin(item[0]))


def _received(results: Results) -> Iterator[SearchedBatch]:
    while (result := results.get()) is not None:
        if isinstance(result, BaseException):
            raise result
        yield result
