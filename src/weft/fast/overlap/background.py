"""Searching in a background thread, while the caller tokenizes the next request and decodes the previous results.

A search on a GPU mostly waits. Its thread needs the interpreter only for moments, but then immediately, or the GPU runs
out of work. So while such a thread runs, Python switches between threads more often (`frequent_thread_switches`), its
garbage collector examines only objects made since (`existing_objects_frozen`), and the caller works in small pieces,
whenever the search waits for the GPU (`yield_to_search`).

Equal to searching in the calling thread (`searched_batches`); tests/fast/overlap/test_background.py.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import TracebackType

from weft.runtime.switches import existing_objects_frozen, frequent_thread_switches
from weft.translation.engines.interface import (
    Engine,
    OverlappingEngine,
    PreparableSearch,
    SearchedBatch,
    TranslationRequest,
    searched_batches,
)

MAX_WAIT_SECONDS = 0.002
"""The longest that other work waits for a search that does not wait for the device."""
Results = queue.SimpleQueue[SearchedBatch | BaseException | None]
Item = tuple[TranslationRequest, Results, PreparableSearch | None]


class BackgroundSearch:
    """A thread that searches requests one after the other; a context manager, which ends the thread.

    When it is left early, by an error or Ctrl-C, the batch that is being searched is completed and the rest dropped.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._overlapping = engine if isinstance(engine, OverlappingEngine) else None
        self._requests: queue.SimpleQueue[tuple[TranslationRequest, Results] | None] = queue.SimpleQueue()
        self._upcoming: list[Item | None] = []
        """The item after the one that is searched, if it was taken from the queue already."""
        self._left = threading.Event()
        self._is_starved = False
        """Whether the search has waited for its last request: then it is not the search that limits the speed."""
        context = contextvars.copy_context()  # observers of the caller's activity see that of the thread
        self._thread = threading.Thread(target=context.run, args=(self._search,), name="weft-search", daemon=True)
        self._stack = ExitStack()
        self._idle = None if self._overlapping is None else self._overlapping.idle_event()

    def __enter__(self) -> BackgroundSearch:
        self._stack.enter_context(frequent_thread_switches())
        self._stack.enter_context(existing_objects_frozen())
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._stack:
            self._left.set()
            self._requests.put(None)
            self._thread.join()

    def yield_to_search(self) -> None:
        """Wait until the search waits for the device, or for a request; not for long."""
        if self._idle is not None and not self._is_starved:
            self._idle.wait(MAX_WAIT_SECONDS)

    def search(self, request: TranslationRequest) -> Iterator[SearchedBatch]:
        """Begin a search when those before it are done; the results of its batches, as they come."""
        results: Results = queue.SimpleQueue()
        self._requests.put((request, results))
        return _received(results)

    def _search(self) -> None:
        while (item := self._next()) is not None and not self._left.is_set():
            request, results, search = item
            try:
                if search is None:
                    batches = searched_batches(self.engine, request)
                else:
                    batches = search.batches(self._prepare_upcoming)
                for batch in batches:
                    results.put(batch)
                    if self._left.is_set():
                        return
                results.put(None)
            except BaseException as error:  # raised again where the results are read
                results.put(error)

    def _next(self) -> Item | None:
        """The next request and, if the engine can prepare it, its search; None: there are no more."""
        if self._upcoming:
            return self._upcoming.pop()
        self._is_starved = self._requests.empty()
        if self._idle is not None:
            self._idle.set()
        item = self._requests.get()
        if self._idle is not None:
            self._idle.clear()
        return self._begin(item)

    def _prepare_upcoming(self) -> None:
        """Encode the first batch of the next request, if there is one by now."""
        with suppress(queue.Empty):
            item = self._begin(self._requests.get_nowait())
            self._is_starved = False
            self._upcoming.append(item)
            if item is not None and item[2] is not None:
                item[2].prepare()

    def _begin(self, item: tuple[TranslationRequest, Results] | None) -> Item | None:
        if item is None:
            return None
        return (*item, None if self._overlapping is None else self._overlapping.begin(item[0]))


def _received(results: Results) -> Iterator[SearchedBatch]:
    while (result := results.get()) is not None:
        if isinstance(result, BaseException):
            raise result
        yield result
