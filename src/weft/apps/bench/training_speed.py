"""The throughput of training: the real loop, timed, beside what the machine's matrix products reach.

Only real tokens are counted; the time includes everything: batches, forward, backward, clipping, optimizer.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from weft.apps.bench.environment import cpu_seconds, peak_memory_bytes
from weft.apps.bench.flops import peak_flops, training_flops
from weft.errors import TrainingError
from weft.models.build import build_model
from weft.recipe import Recipe
from weft.runtime.devices import choose_device
from weft.training.events import Event, Skipped, Started, Step
from weft.training.train import train
from weft.training.update import resolve_precision

REACHED = 0.9
"""The share of its speed from which training counts as having reached it."""
WINDOW_SECONDS = 5.0
"""Throughput is also recorded for windows of this length, to show how much it varies."""


@dataclass(frozen=True)
class TrainingSpeed:
    """The throughput of training."""

    recipe: str
    device: str
    precision: str
    parameters: int
    steps: int
    seconds: float
    target_tokens_per_second: float
    source_tokens_per_second: float
    windows: list[float]
    """Target tokens per second, window by window."""
    step_milliseconds: float
    """The median time per step."""
    first_step_seconds: float
    """Duration of the first step, compilation included."""
    full_speed_seconds: float
    """Seconds from the beginning of the first step to the end of the last one in which fewer tokens were trained than
    `REACHED` of the speed: until then kernels are compiled and shapes recorded."""
    stalled_seconds: float
    """The sum of what steps took beyond twice the median, those before the measurement included."""
    warmup_seconds: float
    flops_per_second: float
    """Floating-point operations of products with weights, forward and backward."""
    peak_flops_per_second: float
    """FLOP/s of one large matrix product on this machine, in the same precision."""
    memory_bytes: int
    """Peak memory: of tensors on a GPU, of the whole process on a CPU."""
    cores: float
    """CPU time divided by elapsed time."""

    @property
    def flops_utilization(self) -> float:
        return self.flops_per_second / self.peak_flops_per_second

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "flops_utilization": self.flops_utilization, "torch": torch.__version__}


def training_speed(recipe: Recipe, *, seconds: float = 30.0, warmup: int = 20) -> TrainingSpeed:
    """Train for some seconds after ``warmup`` steps, in a temporary folder."""
    changes = {"steps": 10**9, "validate_every": 0, "save_every": 0, "metric": "loss", "patience": 0}
    training = recipe.training.model_copy(update=changes)
    if recipe.training.schedule == "cosine":  # over endless steps its rate stays at the peak
        training = training.model_copy(update={"schedule": "constant"})
    measured = recipe.model_copy(update={"training": training})
    device = choose_device(training.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with tempfile.TemporaryDirectory() as folder:
        return _measure(measured, Path(folder) / "run", device, seconds, warmup)


class _Meter:
    """Counts the tokens of steps after the warmup, and the time they take."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.started: Started | None = None
        self.first_step = 0.0
        self.loop_start = self.start = self.window_start = self.cpu_start = 0.0
        self.tokens = {"source": 0, "target": 0}
        self.window_tokens = 0
        self.windows: list[float] = []
        self.step_seconds: list[float] = []
        self.arrivals: list[tuple[float, int]] = []
        """The time of every step since the loop began, and its target tokens."""

    def add(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Started):
            self.started, self.loop_start = event, now
        if not isinstance(event, Step | Skipped):
            return
        if isinstance(event, Step):
            self.arrivals.append((now - self.loop_start, event.target_tokens))
        if event.step == 1:
            self.first_step = now - self.loop_start
        if event.step == self.warmup:
            self.start = self.window_start = now
            self.cpu_start = cpu_seconds()
        if event.step <= self.warmup or isinstance(event, Skipped):
            return
        self.tokens["source"] += event.source_tokens
        self.tokens["target"] += event.target_tokens
        self.window_tokens += event.target_tokens
        self.step_seconds.append(event.seconds)
        if now - self.window_start >= WINDOW_SECONDS:
            self.windows.append(round(self.window_tokens / (now - self.window_start), 1))
            self.window_start, self.window_tokens = now, 0

    def full_speed_seconds(self, speed: float) -> float:
        """See `TrainingSpeed.full_speed_seconds`."""
        by_second: Counter[int] = Counter()
        for seconds, tokens in self.arrivals:
            by_second[int(seconds)] += tokens
        last = int(self.arrivals[-1][0])  # which has not ended
        slow = [second + 1 for second in range(last) if by_second[second] < REACHED * speed]
        return float(max(slow, default=0))

    def stalled_seconds(self) -> float:
        """See `TrainingSpeed.stalled_seconds`."""
        times = [0.0, *(seconds for seconds, _ in self.arrivals)]
        taken = [later - earlier for earlier, later in pairwise(times)]
        return sum(seconds - median(taken) for seconds in taken if seconds > 2 * median(taken))

    def measured(self, seconds: float) -> bool:
        """Whether enough time has been measured."""
        return bool(self.step_seconds) and time.monotonic() - self.start >= seconds


def _measure(recipe: Recipe, folder: Path, device: torch.device, seconds: float, warmup: int) -> TrainingSpeed:
    meter = _Meter(warmup)
    for event in train(recipe, folder):
        meter.add(event)
        if meter.measured(seconds):
            break
    started = meter.started
    if started is None or not meter.step_seconds:
        raise TrainingError("the run ended before anything could be measured")
    elapsed, cpu = time.monotonic() - meter.start, cpu_seconds() - meter.cpu_start
    model = build_model(
        recipe.model, source_size=started.source_vocabulary, target_size=started.target_vocabulary, seed=recipe.seed
    )
    precision = resolve_precision(model, recipe.training, device)
    on_gpu = device.type == "cuda"
    return TrainingSpeed(
        recipe=recipe.name,
        device=torch.cuda.get_device_name(device) if on_gpu else "cpu",
        precision=precision,
        parameters=started.parameters,
        steps=len(meter.step_seconds),
        seconds=elapsed,
        target_tokens_per_second=meter.tokens["target"] / elapsed,
        source_tokens_per_second=meter.tokens["source"] / elapsed,
        windows=meter.windows,
        step_milliseconds=1000 * median(meter.step_seconds),
        first_step_seconds=meter.first_step,
        full_speed_seconds=meter.full_speed_seconds(meter.tokens["target"] / elapsed),
        stalled_seconds=meter.stalled_seconds(),
        warmup_seconds=meter.start - meter.loop_start,
        flops_per_second=training_flops(model, **meter.tokens) / elapsed,
        peak_flops_per_second=peak_flops(device, precision),
        memory_bytes=torch.cuda.max_memory_allocated(device) if on_gpu else peak_memory_bytes(),
        cores=cpu / elapsed,
    )
