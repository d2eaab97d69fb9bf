"""Searching with CUDA graphs: while the device takes the first steps of a batch, the host encodes the next one.

That may be the first batch of the next request (`weft.translation.engines.background`): the device is not left without
work between two requests either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.search.cuda_graphs import CudaGraphLoop, LoopWithWork
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import EngineRequest

if TYPE_CHECKING:
    from weft.translation.engines.torch import PreparedBatch, Searched, TorchEngine


class SearchAhead:
    """One request."""

    def __init__(self, engine: TorchEngine, loop: CudaGraphLoop, request: EngineRequest) -> None:
        self.engine = engine
        self.loop = loop
        self.request = replace(request, sources=IdRows.of(request.sources))
        self._parts = engine.parts(self.request)
        self._next = Once(self._prepare_next)

    def prepare(self) -> None:
        """Encode the first batch; an error is raised when the results are read."""
        self._next.compute()

    def results(self, at_end: Callable[[], None] | None = None) -> Iterator[Searched]:
        """The results of every batch; ``at_end``: what the host does while the last one takes its first steps."""
        while (batch := self._next.result()) is not None:
            self._next = Once(self._prepare_next)

            def work() -> None:
                if self._next.compute() is None and at_end is not None:
                    at_end()

            batch = batch._replace(inputs=replace(batch.inputs, loop=LoopWithWork(self.loop, work)))
            yield batch.rows, self.engine.search_prepared(batch, self.request.settings)

    def _prepare_next(self) -> PreparedBatch | None:
        rows = next(self._parts, None)
        return None if rows is None else self.engine.prepare(self.request, rows)


class Once:
    """Calls a function once: when there is time for it, or at the latest when its result is needed."""

    def __init__(self, function: Callable[[], PreparedBatch | None]) -> None:
        self._function: Callable[[], PreparedBatch | None] | None = function
        self._outcome: PreparedBatch | Exception | None = None

    def compute(self) -> PreparedBatch | Exception | None:
        """The result, or the error in its place: it belongs to whoever needs the result."""
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
