"""The throughput and latency of translation: from lines to lines, tokenization included.

Throughput: sentences per second, for many sentences in batches of similar length. Latency: the time of
one sentence alone, call by call:

    p-th percentile of n times = the ⌈p n / 100⌉-th smallest        nearest rank: always a time that was measured
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any

import torch

from weft.apps.bench.environment import cpu_seconds, peak_memory_bytes
from weft.errors import DataError, SearchError
from weft.evaluation.evaluate import search_signature
from weft.models.architecture import count_parameters
from weft.translation.pipeline import WINDOW_LINES
from weft.translation.translator import Translator


@dataclass(frozen=True)
class TranslationSpeed:
    """The throughput and latency of a run."""

    run: str
    device: str
    engine: str
    precision: str
    threads: int
    parameters: int
    search: str
    batch_tokens: int | str
    sentences: int
    """Sentences translated during the measurement; a source may be counted several times."""
    seconds: float
    sentences_per_second: float
    output_tokens_per_second: float
    """Tokens of the best outputs, without end tokens."""
    calls: int
    """Sources that were translated one at a time, for the latency."""
    latency_p50_milliseconds: float
    latency_p99_milliseconds: float
    memory_bytes: int
    """Peak memory: of tensors on a GPU, of the whole process on a CPU."""
    cores: float
    """CPU time divided by elapsed time, while throughput was measured."""

    def record(self) -> dict[str, Any]:
        from weft import __version__

        versions = {"weft": __version__, "torch": torch.__version__, "python": platform.python_version()}
        return {**asdict(self), **versions}


def translation_speed(
    run: Translator, sources: Sequence[str], *, seconds: float = 10.0, warmup: int = 32, **search: Any
) -> TranslationSpeed:
    """Translate the sources repeatedly for some seconds, then one at a time for as many.

    Before each part, ``warmup`` of them, evenly spaced, are translated without being measured, and on a GPU as many as
    one call will have. The last call is completed, so a part may take a little longer.
    """
    if not run.recipe.model.has_source:
        raise SearchError(f"{run.recipe.name}: a language model has no source to translate; measure another run")
    sources = [source for source in sources if source.strip()]
    if not sources:
        raise DataError("all sources are empty; there is nothing to translate")
    settings = run.search_settings(search)
    on_gpu = run.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(run.device)
    warmup_sources = sources[:: max(len(sources) // warmup, 1)][:warmup]
    for _ in range(2):  # the first call is cold
        start = time.monotonic()
        run.translate(warmup_sources, return_attention=False, **search)
    expected = len(warmup_sources) / max(time.monotonic() - start, 1e-9) * seconds
    batch_size = max(
        min(int(expected), len(sources), WINDOW_LINES), len(warmup_sources)
    )  # one call must not take much longer than the measurement
    if on_gpu:  # compiles or records what depends on the shape
        run.translate(sources[:batch_size], return_attention=False, **search)

    count = tokens = 0
    stream = cycle(sources)
    start, cpu = time.monotonic(), cpu_seconds()
    while (elapsed := time.monotonic() - start) < seconds or not count:
        results = run.translate(list(islice(stream, batch_size)), return_attention=False, **search)
        count += len(results)
        tokens += sum(len(result.ids) for result in results)
    cpu = cpu_seconds() - cpu
    times = _latencies(run, sources, warmup_sources, seconds, search)
    return TranslationSpeed(
        run=run.recipe.name,
        device=torch.cuda.get_device_name(run.device) if on_gpu else run.device.type,
        engine=run.engine.name,
        precision=run.engine.precision,
        threads=torch.get_num_threads(),
        parameters=count_parameters(run.model),
        search=search_signature(settings),
        batch_tokens=settings.batch_tokens,
        sentences=count,
        seconds=elapsed,
        sentences_per_second=count / elapsed,
        output_tokens_per_second=tokens / elapsed,
        calls=len(times),
        latency_p50_milliseconds=1000 * percentile(times, 50),
        latency_p99_milliseconds=1000 * percentile(times, 99),
        memory_bytes=torch.cuda.max_memory_allocated(run.device) if on_gpu else peak_memory_bytes(),
        cores=cpu / elapsed,
    )


def _latencies(
    run: Translator, sources: Sequence[str], warmup_sources: Sequence[str], seconds: float, search: dict[str, Any]
) -> list[float]:
    """The seconds of every call with one source."""
    start = time.monotonic()
    for source in warmup_sources:
        run.translate([source], return_attention=False, **search)
        if time.monotonic() - start > seconds:
            break
    times: list[float] = []
    start = mark = time.monotonic()
    for source in cycle(sources):
        run.translate([source], return_attention=False, **search)
        now = time.monotonic()
        times.append(now - mark)
        mark = now
        if now - start >= seconds:
            break
    return times


def percentile(times: Sequence[float], percent: float) -> float:
    """The smallest of the times that this many percent of them do not exceed."""
    return sorted(times)[max(math.ceil(percent * len(times) / 100) - 1, 0)]
