"""One size varied: which of its values fit into the time, and how long each takes.

Sizes are tried from the smallest on, each with a warm-up that does not count. The next one is tried only if it and the
repetitions of all are expected to fit into the time and into memory; the time to compile kernels and to capture CUDA
graphs, in the first calls at each size, is not counted, up to twice the time of the sweep. Then all are repeated in
rounds, upwards and downwards in turn, so that a machine that becomes slower, or warmer, affects all sizes equally; the
median counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from weft.errors import InputTooLongError

MIN_ROUNDS, MAX_ROUNDS = 3, 15
MAX_SETUP = 2.0
"""Extra time for compiling and capturing, as a multiple of the sweep's own time."""
USABLE_MEMORY = 0.8
"""The part of the available memory that the next size may be expected to need."""
TIME, MEMORY, LENGTH = "time", "memory", "length"
"""Reasons why a sweep ends before its last size."""


class MemoryExhaustedError(Exception):
    """The memory of the device does not suffice for a size."""


class Case(Protocol):
    """A workload at one size, ready to be measured."""

    warmups: int
    """Calls before the first that counts, at least two: memory is measured in the second."""
    units: int
    """Measured units per call, such as the steps of a search."""

    def run(self) -> None:
        """Do the work once, to its end."""

    def memory(self) -> int | None:
        """Do it once, and return the bytes that it needs at its peak; None where that cannot be measured."""


@dataclass(frozen=True)
class Point:
    """The cost at one size."""

    size: int
    seconds: float
    """Seconds per unit: the median of the samples."""
    samples: tuple[float, ...]
    memory: int | None
    """Bytes at the peak."""


@dataclass(frozen=True)
class Stop:
    """The first size that was not measured, and why."""

    size: int
    reason: str
    predicted: bool = True
    """Whether the size was ruled out by a prediction, without trying it."""


@dataclass(frozen=True)
class SweepResult:
    """The points of a sweep."""

    points: tuple[Point, ...]
    stop: Stop | None
    setup: float = 0.0
    """Seconds by which the first calls of all sizes took longer than later ones, and which do not count."""

    def curve(self, attribute: str) -> tuple[list[int], list[float]]:
        """Sizes and values of an attribute of the points, where it is known."""
        known = [(point.size, getattr(point, attribute)) for point in self.points]
        known = [(size, value) for size, value in known if value is not None]
        return [size for size, _ in known], [value for _, value in known]


class _Tried:
    """A size that fits, with its samples."""

    def __init__(self, size: int, case: Case) -> None:
        self.size, self.case = size, case
        self.samples: list[float] = []
        start = time.perf_counter()
        case.run()
        self.memory = case.memory()
        for _ in range(case.warmups - 2):
            case.run()
        warm = time.perf_counter()
        self.expected = self._time()
        """Seconds of the first call after the warm-up."""
        self.setup = max(warm - start - case.warmups * self.expected, 0.0)
        """Seconds by which the calls of the warm-up took longer."""

    def _time(self) -> float:
        start = time.perf_counter()
        self.case.run()
        return time.perf_counter() - start

    def measure(self) -> None:
        self.samples.append(self._time())

    def point(self) -> Point:
        samples = tuple(sample / self.case.units for sample in self.samples)
        return Point(self.size, median(samples), samples, self.memory)


def measure_sweep(
    sizes: Iterable[int], make: Callable[[int], Case], *, seconds: float, available_memory: int | None
) -> SweepResult:
    """Measure as many of the sizes as fit into about ``seconds``."""
    start = time.perf_counter()
    tried: list[_Tried] = []
    stop = None
    for size in sizes:
        spent = time.perf_counter() - start - _setup(tried, seconds)
        if reason := _does_not_fit(tried, spent, seconds, available_memory):
            stop = Stop(size, reason)
            break
        try:
            tried.append(_Tried(size, make(size)))
        except InputTooLongError:
            stop = Stop(size, LENGTH)
            break
        except MemoryExhaustedError:
            stop = Stop(size, MEMORY, predicted=False)
            break
    setup = _setup(tried, seconds)
    for number in range(MAX_ROUNDS if tried else 0):
        for item in tried if number % 2 == 0 else reversed(tried):
            item.measure()
        spent = time.perf_counter() - start - setup
        if number + 1 >= MIN_ROUNDS and spent + sum(item.samples[-1] for item in tried) > seconds:
            break
    return SweepResult(tuple(item.point() for item in tried), stop, setup)


def _setup(tried: list[_Tried], seconds: float) -> float:
    """The time for compiling and capturing that is not counted."""
    return min(sum(item.setup for item in tried), MAX_SETUP * seconds)


def _does_not_fit(tried: list[_Tried], spent: float, seconds: float, available_memory: int | None) -> str:
    """The reason not to try the next size, twice the last one; empty if it is tried. Costs should at least double."""
    if not tried:
        return ""
    last = tried[-1]
    before = tried[-2] if len(tried) > 1 else None
    if last.memory is not None and available_memory is not None:
        growth = last.memory - before.memory if before is not None and before.memory is not None else 0
        if last.memory + 2 * max(growth, 0) > USABLE_MEMORY * available_memory:
            return MEMORY
    ratio = min(max(last.expected / before.expected, 1.0), 4.0) if before is not None else 1.5
    expected = ratio * last.expected
    calls = last.case.warmups + 1 + MIN_ROUNDS
    repeated = MIN_ROUNDS * sum(item.expected for item in tried)
    return TIME if spent + repeated + calls * expected > seconds else ""
