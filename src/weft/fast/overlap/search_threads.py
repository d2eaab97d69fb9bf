"""Searching on several cores: every batch is dealt out to threads, each of which computes on one core.

Many operations of a search step are too small to be divided among cores, so cores are used better if each searches its
own share of the sentences. Results keep their order; scores may differ in their last digits, because a product of fewer
rows may be rounded differently.

Equal to `weft.translation.engines.torch.Execution` up to rounding; tests/fast/overlap/test_search_threads.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import chain
from typing import TypeVar

import torch
from torch import nn

from weft.fast.cpu.compiled import library
from weft.models.interface import Model
from weft.runtime.switches import single_core_threads
from weft.translation.engines.batch_sizes import HypothesisCount
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import Execution, Rows, Searched, TorchEngine

MIN_HYPOTHESES = 16
"""The fewest hypotheses of a share: products of fewer rows are bound by reading the weights, which cores can share."""
Result = TypeVar("Result")


def is_on_cpu(model: Model, device: torch.device) -> bool:
    return device.type == "cpu"


class ThreadedExecution(Execution):
    """Batches on a CPU, dealt out to threads."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(model, device)
        library()  # for searches of one sentence
        modules = model.modules() if isinstance(model, nn.Module) else [model]
        self._is_own_code = all(type(module).__module__.split(".")[0] in ("weft", "torch") for module in modules)

    def search(self, engine: TorchEngine, request: TranslationRequest) -> Iterator[Searched]:
        threads, hypotheses = min(self.threads(request), len(request.sources)), HypothesisCount.of(request).number
        if threads <= 1 or len(request.sources) * hypotheses < 2 * MIN_HYPOTHESES:
            return super().search(engine, request)
        dealt_out = (shares(rows, hypotheses=hypotheses, threads=threads) for rows in engine.parts(request))
        parts = chain.from_iterable(dealt_out)
        return search_in_threads(lambda rows: engine.search_rows(request, rows), parts, threads=threads)

    def threads(self, request: TranslationRequest) -> int:
        """The number of threads that search; one if steps are observed, or a user's own code is called."""
        is_alone = request.observer is not None or request.decoders or request.settings.kind not in ("beam", "greedy")
        return 1 if is_alone or not self._is_own_code else torch.get_num_threads()


def shares(rows: Rows, *, hypotheses: int, threads: int) -> list[Rows]:
    """Rows, sorted by length, dealt out so that all shares take about as long; ``hypotheses``: per row."""
    count = max(1, min(threads, len(rows), len(rows) * hypotheses // MIN_HYPOTHESES))
    return [rows[first::count] for first in range(count)]


def search_in_threads(
    search: Callable[[Rows], Result], parts: Iterable[Rows], *, threads: int
) -> Iterator[tuple[Rows, Result]]:
    """Each part with its result, in order; ``threads`` parts at a time are searched, and as many wait."""
    running: deque[tuple[Rows, Future[Result]]] = deque()
    pool = single_core_threads(threads, "weft-search")
    try:
        for rows in parts:
            if len(running) == 2 * threads:
                yield _taken(running)
            running.append((rows, pool.submit(search, rows)))
        while running:
            yield _taken(running)
    finally:
        pool.shutdown(cancel_futures=True)


def _taken(running: deque[tuple[Rows, Future[Result]]]) -> tuple[Rows, Result]:
    rows, result = running.popleft()
    return rows, result.result()
