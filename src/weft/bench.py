"""How fast a recipe trains: the real loop, timed, beside what the machine's matrix products reach.

Only real tokens are counted; everything is in the time: batches, forward, backward, clipping, optimiser.
"""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from weft.attention.scores import Concat
from weft.build import build_model, choose_device
from weft.errors import TrainingError
from weft.models import PrefixModel
from weft.settings import Recipe
from weft.trainer import train
from weft.training.events import Prepared, Skipped, Step
from weft.training.update import precision_of

WINDOW = 5.0
"""Seconds whose speed is noted by itself, to see how much it varies."""
OF_KEYS = tuple(f"decoder.attention.{part}" for part in ("score.of_keys.", "score.weight_QK", "keys.", "values."))
"""Weights of a recurrent decoder's attention that work on the source, once for all steps."""


@dataclass(frozen=True)
class TrainingSpeed:
    """What was measured."""

    recipe: str
    device: str
    precision: str
    parameters: int
    steps: int
    seconds: float
    target_tokens_per_second: float
    source_tokens_per_second: float
    windows: list[float]
    """Target tokens a second, window by window."""
    step_milliseconds: float
    """The median."""
    first_step_seconds: float
    """From the first step's start to its end, compilation included."""
    warmup_seconds: float
    operations_per_second: float
    """Multiplications and additions of products with weights, forward and backward."""
    peak_operations_per_second: float
    """What one large product reaches here, in the same precision."""
    memory_bytes: int
    """At its peak: on a GPU what tensors took, on a CPU the whole process."""
    cores: float
    """CPU time over time."""

    @property
    def share_of_peak(self) -> float:
        return self.operations_per_second / self.peak_operations_per_second

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "share_of_peak": self.share_of_peak, "torch": torch.__version__}


def training_speed(recipe: Recipe, *, seconds: float = 30.0, warmup: int = 20) -> TrainingSpeed:
    """Train for some seconds after ``warmup`` steps, in a folder that is thrown away."""
    changes = {"steps": 10**9, "validate_every": 0, "save_every": 0, "metric": "loss", "patience": 0}
    training = recipe.training.model_copy(update=changes)
    if recipe.training.schedule == "cosine":  # over a run without end its rate is the peak
        training = training.model_copy(update={"schedule": "constant"})
    measured = recipe.model_copy(update={"training": training})
    device = choose_device(training.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with tempfile.TemporaryDirectory() as folder:
        return _timed(measured, Path(folder) / "run", device, seconds, warmup)


def _timed(recipe: Recipe, folder: Path, device: torch.device, seconds: float, warmup: int) -> TrainingSpeed:
    begun = first = since = mark = cpu = 0.0
    counts = {"source": 0, "target": 0}
    in_window = steps = 0
    windows: list[float] = []
    times: list[float] = []
    prepared: Prepared | None = None
    for event in train(recipe, folder):
        now = time.monotonic()
        if isinstance(event, Prepared):
            prepared, begun = event, now
        if not isinstance(event, Step | Skipped):
            continue
        if event.step == 1:
            first = now - begun
        if event.step == warmup:
            since = mark = now
            cpu = _cpu_seconds()
        if event.step <= warmup or isinstance(event, Skipped):
            continue
        steps += 1
        counts["source"] += event.source_tokens
        counts["target"] += event.target_tokens
        in_window += event.target_tokens
        times.append(event.seconds)
        if now - mark >= WINDOW:
            windows.append(round(in_window / (now - mark), 1))
            mark, in_window = now, 0
        if now - since >= seconds:
            break
    if prepared is None or not steps:
        raise TrainingError("the run ended before anything could be measured")
    passed, cpu = time.monotonic() - since, _cpu_seconds() - cpu
    model = build_model(
        recipe.model, source_size=prepared.source_vocabulary, target_size=prepared.target_vocabulary, seed=recipe.seed
    )
    precision = precision_of(model, recipe.training, device)
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _process_bytes()
    return TrainingSpeed(
        recipe=recipe.name,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        precision=precision,
        parameters=prepared.parameters,
        steps=steps,
        seconds=passed,
        target_tokens_per_second=counts["target"] / passed,
        source_tokens_per_second=counts["source"] / passed,
        windows=windows,
        step_milliseconds=1000 * median(times),
        first_step_seconds=first,
        warmup_seconds=since - begun,
        operations_per_second=operations(model, **counts) / passed,
        peak_operations_per_second=matrix_peak(device, precision),
        memory_bytes=memory,
        cores=cpu / passed,
    )


def operations(model: nn.Module, *, source: int, target: int) -> float:
    """Multiplications and additions of the products with weights, forward and backward, for so many tokens.

    6 a weight and token: 2 forward, 4 backward. Embeddings and positions are looked up, not multiplied; the output is
    multiplied. The bridge from encoder to decoder, once a sentence, is left out.
    """
    total = 0.0
    for name, parameter in model.named_parameters(remove_duplicate=False):
        looked_up = "embedding" in name or name.endswith(("weight_PD", "weight_KH"))
        if parameter.dim() >= 2 and not looked_up and not name.startswith("decoder.bridge."):
            total += 6.0 * parameter.numel() * _tokens(model, name, source, target)
    return total


def _tokens(model: nn.Module, name: str, source: int, target: int) -> float:
    """How many tokens a weight is multiplied by. A prefix model's one stack reads both sides."""
    if isinstance(model, PrefixModel):
        return target + (source if model.source_embedding is not None and name.startswith("stack.") else 0)
    if name.startswith(("encoder.", *OF_KEYS)) or ".cross.of_items." in name:
        return source
    score = getattr(getattr(getattr(model, "decoder", None), "attention", None), "score", None)
    if isinstance(score, Concat) and name == "decoder.attention.score.weight":  # one matrix over [q; k]
        of_queries = score.queries / score.weight.shape[1]
        return of_queries * target + (1 - of_queries) * source
    return target


def matrix_peak(device: torch.device, precision: str) -> float:
    """Operations a second of one large matrix product."""
    from weft.training.update import tensor_float

    size, kind = (8192, torch.bfloat16) if device.type == "cuda" and precision == "bf16" else (1536, torch.float32)
    size = 8192 if device.type == "cuda" else size
    one, other = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    best = float("inf")
    with tensor_float(precision == "tf32"):
        for _ in range(8):
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            begun = time.perf_counter()
            one @ other
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            best = min(best, time.perf_counter() - begun)
    return 2.0 * size**3 / best


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _process_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
