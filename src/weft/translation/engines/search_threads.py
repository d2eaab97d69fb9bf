"""Searching on several cores: every batch is dealt out to threads, each of which computes on one core.

Many operations of a search step are too small to be divided among cores, so cores are used better if each searches its
own share of the sentences. Results keep their order; scores may differ in their last digits, because a product of fewer
rows may be rounded differently.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

MIN_HYPOTHESES = 16
"""The fewest hypotheses of a share: products of fewer rows are bound by reading the weights, which cores can share."""
Result = TypeVar("Result")
Rows = NDArray[np.int64]


def shares(rows: Rows, *, hypotheses: int, threads: int) -> list[Rows]:
    """Rows, sorted by length, dealt out so that all shares take about as long; ``hypotheses``: of each row."""
    count = max(1, min(threads, len(rows) * hypotheses // MIN_HYPOTHESES))
    return [rows[first::count] for first in range(count)]


def search_in_threads(
    search: Callable[[Rows], Result], parts: Iterable[Rows], *, threads: int
) -> Iterator[tuple[Rows, Result]]:
    """Each part with its result, in order; ``threads`` parts at a time are searched, and as many wait."""
    cores = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="weft-search")
    running: deque[tuple[Rows, Future[Result]]] = deque()
    torch.set_num_threads(1)  # threads that are started from now on compute on one core
    try:
        for rows in parts:
            if len(running) == 2 * threads:
                yield _taken(running)
            running.append((rows, pool.submit(search, rows)))
        while running:
            yield _taken(running)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)


def _taken(running: deque[tuple[Rows, Future[Result]]]) -> tuple[Rows, Result]:
    rows, result = running.popleft()
    return rows, result.result()
