"""Prefetching of batches: while the device takes the first steps of a batch, the host encodes the next one.

That may be the first batch of the next request (`weft.fast.overlap.background`), so that the device has work between
two requests, too.

Equal to one batch after the other; tests/fast/overlap/test_prefetch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.fast.recording.search import CudaGraphLoop, LoopWithCallback
from weft.translation.engines.interface import SearchedBatch, TranslationRequest

if TYPE_CHECKING:
    from weft.translation.engines.torch import PreparedBatch, Searched, TorchEngine


class PrefetchingSearch:
    """The search of one request (`PreparableSearch`), whose next batch is encoded while one is searched."""

    def __init__(self, engine: TorchEngine, loop: CudaGraphLoop, request: TranslationRequest) -> None:
        self.engine = engine
        self.loop = loop
        self.request = request
        self._parts = engine.parts(request)
        self._next = Lazy(self._prepare_next)

    def prepare(self) -> None:
        self._next.compute()

    def batches(self, on_last_batch: Callable[[], None]) -> Iterator[SearchedBatch]:
        return self.engine.report(self.request, self.results(on_last_batch))

    def results(self, on_last_batch: Callable[[], None] | None = None) -> Iterator[Searched]:
        """The results of every batch. ``on_last_batch``: see `PreparableSearch.batches`."""
        while (batch := self._next.result()) is not None:
            self._next = Lazy(self._prepare_next)

            def prefetch() -> None:
                if self._next.compute() is None and on_last_batch is not None:
                    on_last_batch()

            batch = batch._replace(inputs=replace(batch.inputs, loop=LoopWithCallback(self.loop, prefetch)))
            yield batch.rows, self.engine.search_prepared(batch, self.request.settings)

    def _prepare_next(self) -> PreparedBatch | None:
        rows = next(self._parts, None)
        return None if rows is None else self.engine.prepare(self.request, rows)


class Lazy:
    """The result of a function that is called once: by `compute`, or at the latest by `result`."""

    def __init__(self, function: Callable[[], PreparedBatch | None]) -> None:
        self._function: Callable[[], PreparedBatch | None] | None = function
        self._outcome: PreparedBatch | Exception | None = None

    def compute(self) -> PreparedBatch | Exception | None:
        """The result, or the error that the function has raised; `result` raises it."""
        if self._function is not None:
            function, self._function = self._function, None
            try:
                self._outcome = function()
            except Exception as error:
                self._outcome = error
        return self._outcome

    def result(self) -> PreparedBatch | None:
        outcome = self.compute()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
