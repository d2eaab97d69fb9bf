"""Text to text on one GPU: a trained run, lines in, lines out; beside the same searches by ids.

    python benchmarks/translate_gpu.py RUN FILE             sentences and output tokens per second, GPU and CPU busy
    python benchmarks/translate_gpu.py RUN FILE --profile   and the kernels that take the time
    python benchmarks/translate_gpu.py RUN FILE --plain     the same without CUDA graphs
    python benchmarks/translate_gpu.py RUN FILE --memory 2e9 4e9 0.25 --quick        for several values of search.memory
    python benchmarks/translate_gpu.py RUN FILE --hypotheses 5120 20480 --quick      at most so many at a time
    python benchmarks/translate_gpu.py RUN FILE --train 800   first trains RUN so long, from the folder of the file

The file is translated three times: a first pass captures CUDA graphs and fills the cache of words, and the faster of
the other two is counted (`Translator.translate_lines`; `weft translate FILE` does the same). By ids: the same windows,
already tokenized, without postprocessing. The latency is that of `translate` for one source of eight tokens. Graphs,
their memory and that of PyTorch are freed before each setting; ``kept GiB``: what buffers and records take. With
``--hypotheses``, batches have so many whatever memory they are estimated to take; ``--memory`` limits what is kept.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

import weft
from weft.apps.bench.environment import cpu_seconds
from weft.apps.bench.translation_speed import percentile
from weft.translation.engines import batch_sizes
from weft.translation.engines.interface import searched_batches
from weft.translation.engines.torch import Execution
from weft.translation.pipeline import windows_of
from weft.translation.translator import Translator


def by_text(run: Translator, lines: list[str], search: dict[str, Any]) -> tuple[float, int, float]:
    """Seconds, output tokens and CPU seconds."""
    start, cpu = time.monotonic(), cpu_seconds()
    results = list(run.translate_lines(lines, **search))
    seconds, cpu = time.monotonic() - start, cpu_seconds() - cpu
    return seconds, sum(len(result.ids) for result in results), cpu


def by_ids(run: Translator, lines: list[str], search: dict[str, Any]) -> tuple[float, int]:
    """Seconds and output tokens."""
    windows = windows_of(lines, return_attention=False, large=True)
    requests = [
        run.pipeline.tokenize(replace(run.request(window, **search), return_attention=False)) for window in windows
    ]
    start, tokens = time.monotonic(), 0
    for request in requests:
        for batch in searched_batches(run.engine, request):
            found: Any = getattr(batch.hypotheses, "arrays", batch.hypotheses)
            tokens += int(found.token_counts_BN.sum())
    return time.monotonic() - start, tokens


def busy(run: Translator, lines: list[str], search: dict[str, Any], *, table: bool) -> float:
    """The share of the time in which a kernel runs."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        seconds, _, _ = by_text(run, lines, search)
    averages = profile.key_averages()
    if table:
        print(averages.table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70))
    return sum(event.self_device_time_total for event in averages) / 1e6 / seconds


def latency(run: Translator, lines: list[str], search: dict[str, Any], calls: int) -> tuple[float, float]:
    """p50 and p99 in milliseconds of sources of eight tokens."""
    chosen = [line for line in lines if len(run.tokenizers.source.encode(line)) == 8][: calls + 50]
    times = []
    for line in chosen:
        start = time.perf_counter()
        run.translate([line], return_attention=False, **search)
        times.append(1000 * (time.perf_counter() - start))
    return percentile(times[50:], 50), percentile(times[50:], 99)


def train(run: Path, data: Path, steps: int) -> None:
    """A small Transformer, trained for some steps on the data of the recipe ``tatoeba``."""
    steps_of = ("steps", "warmup", "validate_every", "save_every")
    changes = [f"training.{name}={value}" for name, value in zip(steps_of, (steps, steps // 4, 0, 0), strict=True)]
    recipe = weft.load_recipe(
        "tatoeba", [f"data.folder={data}", "training.metric=loss", "training.average=1", *changes]
    )
    for _ in weft.train(recipe, run):
        pass


def allow_hypotheses(number: int) -> None:
    """Batches of so many hypotheses, whatever they are estimated to need."""
    batch_sizes.MAX_HYPOTHESES = number
    plain = batch_sizes.memory_slices
    batch_sizes.memory_slices = lambda *given, limit, **options: plain(*given, limit=1 << 62, **options)


def measure(run: Translator, lines: list[str], search: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """Everything that is reported about one kind of search."""
    engine: Any = run.engine
    engine.release()
    torch.cuda.reset_peak_memory_stats()
    cold = by_text(run, lines, search)[0]
    seconds, tokens, cpu = min(by_text(run, lines, search) for _ in range(2))
    id_seconds, id_tokens = min(by_ids(run, lines, search) for _ in range(2))
    loop = engine.execution.loop
    record = {
        "first pass s": cold, "sentences/s": len(lines) / seconds, "tokens/s": tokens / seconds,
        "tokens/s by ids": id_tokens / id_seconds, "text/ids": id_seconds / seconds, "cores": cpu / seconds,
        "tokens": tokens, "memory GiB": torch.cuda.max_memory_allocated() / 2**30,
        "reserved GiB": torch.cuda.max_memory_reserved() / 2**30,
    }  # fmt: skip
    if loop is not None:
        kept = loop.buffers.bytes + sum(map(loop.size, loop.graphs.values()))
        record |= {"graphs": len(loop.graphs), "kept GiB": kept / 2**30}
    if not given.quick:
        p50, p99 = latency(run, lines, search, 300)
        record |= {"p50 ms": p50, "p99 ms": p99, "GPU busy": busy(run, lines, search, table=given.profile)}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=70_000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--quick", action="store_true", help="neither latency nor the share of time with a kernel")
    parser.add_argument("--kinds", nargs="*", default=["beam", "greedy"])
    parser.add_argument("--memory", type=float, nargs="*", help="search.memory: bytes, or a share of what is free")
    parser.add_argument("--hypotheses", type=int, nargs="*", default=[0], help="the most at a time")
    parser.add_argument("--train", type=int, help="train RUN for so many steps, if there is none")
    parser.add_argument("--out", type=Path, help="append the results here, too")
    given = parser.parse_args()
    if given.train and not given.run.exists():
        train(given.run, given.file.parent, given.train)
    run = weft.load(given.run, device="cuda")
    if given.plain:
        engine: Any = run.engine
        engine.execution = Execution(engine.model, engine.device)
    lines = given.file.read_text("utf-8").split("\n")[:-1][: given.lines]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {run!r}, {len(lines):,} lines")
    for hypotheses in given.hypotheses:
        if hypotheses:
            allow_hypotheses(hypotheses)
        for memory, kind in product(given.memory or [None], given.kinds):
            search: dict[str, Any] = {"kind": kind, "batch_tokens": "auto"}
            if memory:
                search["memory"] = memory
            setting = {"kind": kind, "memory": memory, "hypotheses": hypotheses or None}
            record = setting | measure(run, lines, search, given)
            line = json.dumps({name: round(v, 3) if isinstance(v, float) else v for name, v in record.items()})
            print(line, flush=True)
            if given.out:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
