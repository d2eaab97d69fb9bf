"""How fast a recipe trains, and how fast a run translates.

Training: the real loop, timed, beside what the machine's matrix products reach. Only real tokens are counted;
everything is in the time: batches, forward, backward, clipping, optimizer.

Translating: from lines to lines, as a user has it, tokenizers included, in two parts. How many sentences a second,
where many are handed over at once and go in batches of similar length; and how long one alone takes, call by call:

    p-th percentile of n times = the ⌈p n / 100⌉-th smallest        the nearest rank, so it is one that was measured
"""

from __future__ import annotations

import math
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from weft.attention.scores import Concat
from weft.errors import DataError, SearchError, TrainingError
from weft.evaluation.report import signature
from weft.models import PrefixLM
from weft.models.build import build_model, choose_device
from weft.recipe import Recipe
from weft.training.events import Skipped, Started, Step
from weft.training.train import train
from weft.training.update import precision_of
from weft.translation.translator import WINDOW_LINES, Translator

WINDOW = 5.0
"""Seconds whose speed is noted by itself, to see how much it varies."""
OF_KEYS = tuple(
    f"decoder.attention.{part}"
    for part in ("score.key_projection.", "score.weight_QK", "key_projection.", "value_projection.")
)
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
    prepared: Started | None = None
    for event in train(recipe, folder):
        now = time.monotonic()
        if isinstance(event, Started):
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


@dataclass(frozen=True)
class TranslationSpeed:
    """What was measured."""

    run: str
    device: str
    engine: str
    precision: str
    threads: int
    parameters: int
    search: str
    batch_tokens: int
    sentences: int
    """Translated while the time ran; a source may be among them several times."""
    seconds: float
    sentences_per_second: float
    output_tokens_per_second: float
    """Tokens of the best outputs, end marks not counted."""
    calls: int
    """Sources that were translated alone, for the latency."""
    latency_p50_milliseconds: float
    latency_p99_milliseconds: float
    memory_bytes: int
    """At its peak: on a GPU what tensors took, on a CPU the whole process."""
    cores: float
    """CPU time over time, of the sentences a second."""

    def record(self) -> dict[str, Any]:
        from weft import __version__

        versions = {"weft": __version__, "torch": torch.__version__, "python": platform.python_version()}
        return {**asdict(self), **versions}


def translation_speed(
    run: Translator, sources: Sequence[str], *, seconds: float = 10.0, warmup: int = 32, **search: Any
) -> TranslationSpeed:
    """Translate the sources over and over for some seconds, then one by one for as many.

    Before each part ``warmup`` of them, at even distances, are translated without being measured, and on a GPU as many
    as one call will have. A call that has begun is ended, so it may take a little longer.
    """
    if not run.recipe.model.has_source:
        raise SearchError(f"{run.recipe.name}: a language model has no source to translate; measure another run")
    asked = [source for source in sources if source.strip()]
    if not asked:
        raise DataError("there are no sources to translate but empty ones")
    settings = run.search_settings(search)
    on_gpu = run.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(run.device)
    some = asked[:: max(len(asked) // warmup, 1)][:warmup]
    for _ in range(2):  # cold, then warm
        begun = time.monotonic()
        run.translate(some, return_attention=False, **search)
    likely = len(some) / max(time.monotonic() - begun, 1e-9) * seconds
    together = max(min(int(likely), len(asked), WINDOW_LINES), len(some))  # one call should not take all day
    if on_gpu:  # what is compiled or recorded for a shape
        run.translate(asked[:together], return_attention=False, **search)

    count = tokens = 0
    stream = cycle(asked)
    begun, cpu = time.monotonic(), _cpu_seconds()
    while (passed := time.monotonic() - begun) < seconds or not count:
        found = run.translate(list(islice(stream, together)), return_attention=False, **search)
        count += len(found)
        tokens += sum(len(one.ids) for one in found)
    cpu = _cpu_seconds() - cpu
    times = _latencies(run, asked, some, seconds, search)
    return TranslationSpeed(
        run=run.recipe.name,
        device=torch.cuda.get_device_name(run.device) if on_gpu else run.device.type,
        engine=run.engine.name,
        precision=run.engine.precision,
        threads=torch.get_num_threads(),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        search=signature(settings),
        batch_tokens=settings.batch_tokens,
        sentences=count,
        seconds=passed,
        sentences_per_second=count / passed,
        output_tokens_per_second=tokens / passed,
        calls=len(times),
        latency_p50_milliseconds=1000 * percentile(times, 50),
        latency_p99_milliseconds=1000 * percentile(times, 99),
        memory_bytes=torch.cuda.max_memory_allocated(run.device) if on_gpu else _process_bytes(),
        cores=cpu / passed,
    )


def _latencies(
    run: Translator, sources: Sequence[str], some: Sequence[str], seconds: float, search: dict[str, Any]
) -> list[float]:
    """Seconds of every call with one source."""
    begun = time.monotonic()
    for source in some:
        run.translate([source], return_attention=False, **search)
        if time.monotonic() - begun > seconds:
            break
    times: list[float] = []
    begun = mark = time.monotonic()
    for source in cycle(sources):
        run.translate([source], return_attention=False, **search)
        now = time.monotonic()
        times.append(now - mark)
        mark = now
        if now - begun >= seconds:
            break
    return times


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest of them that so many per cent do not exceed."""
    return sorted(times)[max(math.ceil(share * len(times) / 100) - 1, 0)]


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
    if isinstance(model, PrefixLM):
        return target + (source if model.source_embedding is not None and name.startswith("stack.") else 0)
    if name.startswith(("encoder.", *OF_KEYS)) or ".cross_attention.key_value." in name:
        return source
    score = getattr(getattr(getattr(model, "decoder", None), "attention", None), "score", None)
    if isinstance(score, Concat) and name == "decoder.attention.score.weight":  # one matrix over [q; k]
        of_queries = score.query_width / score.weight.shape[1]
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
