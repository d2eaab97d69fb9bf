"""Prefetching of batches: while the device takes the first steps of a batch, the host encodes the next one.

That may be the first batch of the next request (`weft.fast.overlap.background`), so that the device has work between
two requests, too.

Equal to one batch after the other; tests/fast/overlap/test_prefetch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.errors import is_out_of_memory
from weft.fast.recording.search import CudaGraphLoop, LoopWithCallback
from weft.translation.engines.interface import SearchedBatch, TranslationRequest

if TYPE_CHECKING:
    from weft.search.interface import Hypothesis
    from weft.translation.engines.torch import PreparedBatch, Rows, Searched, TorchEngine

    EncodedRows = tuple[Rows, PreparedBatch | None]
    """Rows of a request, and what they were encoded to; None: not encoded, since memory is not enough."""


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
        while (encoded := self._next.result()) is not None:
            rows, batch = encoded
            self._next = Lazy(self._prepare_next)

            def prefetch() -> None:
                if self._next.compute() is None and on_last_batch is not None:
                    on_last_batch()

            hypotheses = None if batch is None else self._search(batch, prefetch)
            del encoded, batch
            if hypotheses is None:
                if self.engine.divided.parts == 1:
                    self.engine.release()
                hypotheses = self.engine.search_rows(self.request, rows)
            yield rows, hypotheses

    def _search(self, batch: PreparedBatch, prefetch: Callable[[], None]) -> Sequence[list[Hypothesis]] | None:
        """The hypotheses of a batch; None: memory is not enough, and the engine has to search it in parts."""
        batch = batch._replace(inputs=replace(batch.inputs, loop=LoopWithCallback(self.loop, prefetch)))
        try:
            return self.engine.search_prepared(batch, self.request.settings)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _prepare_next(self) -> EncodedRows | None:
        rows = next(self._parts, None)
        if rows is None:
            return None
        if self.engine.divided.parts > 1:
            return rows, None
        try:
            return rows, self.engine.prepare(self.request, rows)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return rows, None


class Lazy:
    """The result of a function that is called once: by `compute`, or at the latest by `result`."""

    def __init__(self, function: Callable[[], EncodedRows | None]) -> None:
        self._function: Callable[[], EncodedRows | None] | None = function
        self._outcome: EncodedRows | Exception | None = None

    def compute(self) -> EncodedRows | Exception | None:
        """The result, or the error that the function has raised; `result` raises it."""
        if self._function is not None:
            function, self._function = self._function, None
            try:
                self._outcome = function()
            except Exception as error:
                self._outcome = error
        return self._outcome

    def result(self) -> EncodedRows | None:
        outcome = self.compute()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
