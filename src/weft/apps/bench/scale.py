"""Scaling of a recipe's costs: every size varied in turn, for training and for search."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import torch

from weft.apps.bench.environment import environment
from weft.apps.bench.growth import Growth, fit_growth
from weft.apps.bench.limits import MinimumWork, Peaks, Reached
from weft.apps.bench.sizes import AXES, SizeAxis, Sizes, base_sizes, check_axis
from weft.apps.bench.sweep import MEMORY, MemoryExhaustedError, Point, SweepResult, measure_sweep
from weft.apps.bench.workloads import (
    ENCODER,
    STEP,
    UPDATE,
    EncoderWorkload,
    Phase,
    StepWorkload,
    TorchCase,
    UpdateWorkload,
    Workload,
)
from weft.errors import InputTooLongError, RecipeError, option
from weft.recipe import Recipe
from weft.runtime.activity import activity
from weft.runtime.devices import choose_device, device_memory

PHASES = (UPDATE, ENCODER, STEP)
WORKLOADS: dict[Phase, Callable[[Recipe, torch.device, int], Workload]] = {
    ENCODER: EncoderWorkload,
    STEP: StepWorkload,
    UPDATE: UpdateWorkload,
}
"""The workload of each phase, in the order of measurement: the slowest one gets the time that others leave."""
SHARES = {UPDATE: 3.0, ENCODER: 1.0, STEP: 3.0}
"""Relative time of a sweep of each phase."""
FARTHEST = 1000
"""The size at which memory runs out is stated if it is at most this many times the largest measured size."""


@dataclass(frozen=True)
class Curve:
    """The costs of one phase as one size varies."""

    phase: Phase
    axis: SizeAxis
    measured: SweepResult
    works: tuple[MinimumWork, ...]
    """The minimum work at each point."""
    peaks: Peaks
    available_memory: int | None

    @property
    def points(self) -> tuple[Point, ...]:
        return self.measured.points

    @property
    def time(self) -> Growth:
        return fit_growth(*self.measured.curve("seconds"))

    @property
    def memory(self) -> Growth:
        return fit_growth(*self.measured.curve("memory"))

    @property
    def reached(self) -> list[Reached]:
        """The fraction of the peak rates reached at every point."""
        return [self.peaks.reached(work, point.seconds) for point, work in zip(self.points, self.works, strict=True)]

    @property
    def memory_limit(self) -> int | None:
        """The smallest size for which memory does not suffice; None if that is unknown, or far away."""
        stop = self.measured.stop
        if stop is not None and stop.reason == MEMORY and not stop.predicted:
            return stop.size
        size = None if self.available_memory is None else self.memory.size_of(self.available_memory)
        return None if size is None or size > FARTHEST * self.points[-1].size else int(size)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the limit of memory was met, not computed."""
        stop = self.measured.stop
        return stop is not None and stop.reason == MEMORY and not stop.predicted


@dataclass(frozen=True)
class Scale:
    """The growth of a recipe's costs on a machine."""

    recipe: str
    device: str
    threads: int
    precision: dict[str, str]
    """The precision of each phase."""
    parameters: int
    base: Sizes
    curves: tuple[Curve, ...]
    peaks: dict[str, Peaks]
    """The peak rates of each precision."""
    available_memory: int | None
    """Bytes on the device before anything was allocated."""
    seconds: float
    """Seconds that the measurement took."""
    environment: dict[str, str] = field(default_factory=environment)


def measure_scale(recipe: Recipe, *, minutes: float = 1.0, vary: Sequence[str] = (), at: Sequence[str] = ()) -> Scale:
    """Measure how time and memory grow, in about ``minutes``; on a GPU, compiling kernels takes additional time.

    ``vary``: the sizes to vary, by default all. ``at``: values for the sizes that stay fixed, such as ``batch=64``.
    """
    if not minutes > 0:
        raise RecipeError(f"{option('minutes', minutes)}: expected a number of minutes above 0")
    if recipe.model.stem.kind != "none":
        raise RecipeError(
            f"{recipe.name}: its sources are pictures or frames, which have no length in tokens to vary; measure its "
            f"training with weft bench train"
        )
    chosen = [check_axis(name, "vary", name) for name in vary] or list(AXES)
    start = time.monotonic()
    device = choose_device(recipe.training.device)
    base = base_sizes(recipe, on_gpu=device.type == "cuda", at=at)
    plan = [(phase, AXES[name]) for phase in WORKLOADS for name in phase.axes if name in chosen]
    plan = [(phase, axis) for phase, axis in plan if recipe.model.has_source or "source" not in axis.name]
    plan = [(phase, axis) for phase, axis in plan if recipe.model.has_source or phase is not ENCODER]
    meter = _Meter(recipe, device, base, start + 60 * minutes)
    with activity(f"measuring {recipe.name}", "curves", total=len(plan)) as measuring:
        for index, (phase, axis) in enumerate(plan):
            weights = [SHARES[later] for later, _ in plan[index:]]
            meter.measure(phase, axis, weights[0] / sum(weights))
            measuring.done += 1
    meter.measure_peaks()
    return Scale(
        recipe=recipe.name,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        threads=torch.get_num_threads(),
        precision=meter.precision,
        parameters=meter.parameters,
        base=base,
        curves=tuple(sorted(meter.curves, key=lambda curve: PHASES.index(curve.phase))),
        peaks=meter.peaks,
        available_memory=meter.available_memory,
        seconds=time.monotonic() - start,
    )


class _Meter:
    """Measures one curve after the other."""

    def __init__(self, recipe: Recipe, device: torch.device, base: Sizes, end: float) -> None:
        self.recipe, self.device, self.base, self.end = recipe, device, base, end
        self.available_memory = device_memory(device)
        self.curves: list[Curve] = []
        self.peaks: dict[str, Peaks] = {}
        self.precision: dict[str, str] = {}
        self.parameters = 0
        self.workload: tuple[Phase, Workload] | None = None

    def measure(self, phase: Phase, axis: SizeAxis, share: float) -> None:
        """Measure a curve in this share of the time that is left."""
        workload = self._workload(phase)
        if workload.precision not in self.peaks:
            self.peaks[workload.precision] = Peaks.measure(self.device, workload.precision)
        cases: dict[int, TorchCase] = {}

        def make(size: int) -> TorchCase:
            cases[size] = workload.case(self.base._replace(**{axis.name: size}))
            return cases[size]

        smallest = self.recipe.model.sources.count if axis.name == "source_length" else 1
        seconds = max(share * (self.end - time.monotonic()), 0.0)
        sizes = axis.values(smallest)
        measured = measure_sweep(sizes, make, seconds=seconds, available_memory=self.available_memory)
        self.end += measured.setup
        works = tuple(cases[point.size].work() for point in measured.points)
        peaks = self.peaks[workload.precision]
        self.curves.append(Curve(phase, axis, measured, works, peaks, self.available_memory))
        cases.clear()
        if self.device.type == "cuda":
            self._collect()

    def measure_peaks(self) -> None:
        """Measure the peaks once more, and keep the higher ones: the machine may have been busy the first time."""
        self.workload = None
        self._collect()
        for precision, before in self.peaks.items():
            self.peaks[precision] = before.best(Peaks.measure(self.device, precision))
        self.curves = [replace(curve, peaks=self.peaks[self.precision[curve.phase.name]]) for curve in self.curves]

    def _workload(self, phase: Phase) -> Workload:
        if self.workload is None or self.workload[0] is not phase:
            self.workload = None
            self._collect()
            workload = WORKLOADS[phase](self.recipe, self.device, self.base.vocabulary)
            self.workload = phase, workload
            self.precision[phase.name] = workload.precision
            self.parameters = workload.parameters
            self._warm_up(workload)
            return workload
        return self.workload[1]

    def _warm_up(self, workload: Workload) -> None:
        """Import, compile and select what a phase needs at any size; the time for that is not counted."""
        start = time.monotonic()
        with suppress(InputTooLongError, MemoryExhaustedError):
            case = workload.case(self.base._replace(batch=1))
            for _ in range(case.warmups):
                case.run()
        self.end += time.monotonic() - start

    def _collect(self) -> None:
        """Release the memory of what was measured before."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
