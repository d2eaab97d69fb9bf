"""Memory that runs out in the middle of a computation: it is computed again, in twice as many parts.

Sizes are compared with the available memory beforehand (size_limits.py), but other processes take memory of the same
device whenever they like. A search or a validation then continues with smaller batches; an update of the weights sums
the gradients of the parts of its batch. The results are the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from weft.errors import is_out_of_memory, warn

Result = TypeVar("Result")
Rows = np.ndarray


def release_memory() -> None:
    """Give back memory that PyTorch keeps for later."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class DividedWork:
    """Work that is done at once as long as memory is enough, then in 2, 4, 8, … parts. The number of parts is kept."""

    def __init__(self, name: str, release: Callable[[], None] = release_memory) -> None:
        """``name``: what is done, for the warning; ``release``: gives memory back before the next attempt."""
        self.name = name
        self.release = release
        self.parts = 1
        self.has_warned = False

    def run(self, compute: Callable[[int], Result], *, most: int) -> Result:
        """The result of ``compute``, which is given the number of parts; with ``most`` parts, the error is raised."""
        while True:
            parts = min(self.parts, max(most, 1))
            try:
                return compute(parts)
            except Exception as error:
                if parts >= most or not is_out_of_memory(error):
                    raise
            self.release()  # not above: until there, the error keeps what was computed
            self.parts = max(self.parts, 2 * parts)  # another thread may have been here
            self._warn()

    def over_rows(self, compute: Callable[[Rows], Sequence[Result]], rows: Rows) -> Sequence[Result]:
        """The results of all rows at once or, one after the other, of parts of them."""

        def in_parts(parts: int) -> Sequence[Result]:
            if parts == 1:
                return compute(rows)
            return [result for part in np.array_split(rows, parts) for result in compute(part)]

        return self.run(in_parts, most=len(rows))

    def _warn(self) -> None:
        if not self.has_warned:
            self.has_warned = True
            warn(f"{self.name}: not enough memory for a batch at once; continuing in parts, with the same results")
