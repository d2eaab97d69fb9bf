"""Work in parts where memory is not enough; errors are simulated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from weft.errors import TrainingError, WeftWarning, is_out_of_memory
from weft.runtime.devices import DividedWork, release_memory

MESSAGE = r"^search: not enough memory for a whole batch; continuing in parts, with the same results$"
ERRORS = [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: no memory")]


class Limited:
    """Doubles rows, of which at most ``most`` fit in memory."""

    def __init__(self, most: int, error: Exception | None = None) -> None:
        self.most = most
        self.error = error or torch.OutOfMemoryError()
        self.sizes: list[int] = []

    def __call__(self, rows: np.ndarray) -> list[int]:
        self.sizes.append(len(rows))
        if len(rows) > self.most:
            raise self.error
        return [2 * row for row in rows.tolist()]


@pytest.mark.parametrize("error", ERRORS)
def test_rows_in_parts(error: Exception) -> None:
    released: list[int] = []
    work, compute = DividedWork("search", lambda: released.append(1)), Limited(3, error)
    with pytest.warns(WeftWarning, match=MESSAGE) as warned:
        assert work.over_rows(compute, np.arange(9)) == [2 * row for row in range(9)]
    assert compute.sizes == [9, 5, 3, 2, 2, 2] and len(warned) == 1 and len(released) == 2
    compute.sizes.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert work.over_rows(compute, np.arange(4)) == [0, 2, 4, 6]
    assert compute.sizes == [1, 1, 1, 1], "the number of parts is kept"
    assert work.over_rows(compute, np.arange(2)) == [0, 2]


def test_at_once() -> None:
    work, compute = DividedWork("search"), Limited(9)
    assert work.over_rows(compute, np.arange(9)) == [2 * row for row in range(9)]
    assert compute.sizes == [9] and work.parts == 1


def test_rows_that_never_fit() -> None:
    work, compute = DividedWork("search"), Limited(0)
    with pytest.warns(WeftWarning, match=MESSAGE), pytest.raises(torch.OutOfMemoryError):
        work.over_rows(compute, np.arange(3))
    assert compute.sizes == [3, 2, 1]
    with pytest.raises(torch.OutOfMemoryError):
        DividedWork("search").over_rows(compute, np.arange(1))


def test_other_errors_are_raised() -> None:
    with pytest.raises(ValueError, match="bad"):
        DividedWork("search").over_rows(Limited(1, ValueError("bad")), np.arange(3))


def test_errors_that_memory_led_to() -> None:
    """Of an error in ending a capture, and of one that was raised deliberately."""

    def raised(make: Any) -> BaseException:
        try:
            try:
                raise torch.OutOfMemoryError
            except RuntimeError as error:
                make(error)
        except Exception as error:
            return error
        raise AssertionError

    def capture_end(_: Exception) -> None:
        raise RuntimeError("operation failed due to a previous error during capture")

    def stop(error: Exception) -> None:
        raise TrainingError("stopped") from error

    def other(_: Exception) -> None:
        raise ValueError

    assert is_out_of_memory(raised(capture_end)) and is_out_of_memory(raised(stop))
    assert not is_out_of_memory(raised(other)) and not is_out_of_memory(RuntimeError("CUDA error"))


def test_releasing_needs_no_gpu() -> None:
    release_memory()
