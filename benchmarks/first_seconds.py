"""The first seconds of a fresh process on a GPU: when the first update or translation comes, and what was done before.

    python benchmarks/first_seconds.py base rnn-inside --seconds 60 --out first.jsonl
    python benchmarks/first_seconds.py translate --run RUN --file FILE --out first.jsonl

Each workload is run in two new processes: the first with an empty cache of Triton's kernels (``cold``), the second with
what the first has left there (``filled``). One line of JSON each, and one for every kernel that took over 50 ms to
compile in this process. Times are seconds since the process was started; ``compiling`` sums over kernels, also of those
compiled at the same time; what another process has compiled for this one counts as ``read from the cache``. Training is
that of benchmarks/train_gpu.py: ``share`` is the number of target tokens of the first minute (or of ``--seconds``)
after the first batch was asked for, divided by that of as long a time at the steady speed, the median of the seconds of
the last third. A translation is that of the first ``--lines`` lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import train_gpu

BEGAN = float(os.environ.get("WEFT_BENCHMARK_BEGAN", time.time()))
HEAVY = (
    "torch._dynamo",
    "torch._inductor",
    "torch.fx.experimental.symbolic_shapes",
    "sympy",
    "torch.distributed.tensor",
)
"""Modules that take long to import, and which neither training nor searching needs."""
SLOW = 0.05
"""Seconds of a compilation that gets a line of its own."""


def now() -> float:
    return round(time.time() - BEGAN, 3)


class Watch:
    """What was done, and how long it took, by name."""

    def __init__(self) -> None:
        self.marks: dict[str, float] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)
        self.calls: dict[str, list[float]] = defaultdict(list)
        self.kernels: list[dict[str, Any]] = []

    def mark(self, name: str) -> None:
        self.marks.setdefault(name, now())

    def timed(self, name: str, owner: Any, function: str, *, each: bool = False) -> None:
        """Add up the time of all calls of a function. ``each``: record that of each, too."""
        plain = getattr(owner, function)

        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return plain(*args, **options)
            finally:
                self.seconds[name] += time.perf_counter() - start
                self.counts[name] += 1
                if each:
                    self.calls[name].append(round(time.perf_counter() - start, 3))

        setattr(owner, function, call)

    def watch_triton(self) -> None:
        """Record every compilation, and what was read from the cache."""
        from triton import knobs

        def listen(*, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool) -> None:
            stages = {name: round(micros / 1e6, 3) for name, micros in times.lowering_stages}
            name = "read from the cache" if cache_hit else "compiling"
            self.seconds[name] += times.total / 1e6
            self.counts[name] += 1
            if not cache_hit:
                where = f"{src.fn.__module__.removeprefix('weft.fast.triton.')}.{src.name}"
                begin = round(times.ir_initialization / 1e6, 3)
                took = round(times.total / 1e6, 3)
                self.kernels.append({"kernel": where, "at": now(), "seconds": took, "source to IR": begin, **stages})

        knobs.compilation.listener = listen

    def watch_weft(self) -> None:
        from weft.fast.recording.recorder import Recorder
        from weft.fast.updating import cuda_graph_update
        from weft.fast.updating.cuda_graph_update import CudaGraphUpdate

        self.timed("capturing", Recorder, "capture")
        self.timed("updates before graphs, and in them", CudaGraphUpdate, "_update_static")
        from weft.fast.recording import compilation, search_rehearsal
        from weft.fast.recording.compiler_process import CompilerProcess

        self.timed("rehearsing updates", CudaGraphUpdate, "rehearse")
        self.timed("rehearsing searches", search_rehearsal.SearchRehearsals, "before")
        self.timed("waiting for Triton", compilation, "wait_for_preparation")
        self.timed("rehearsals of updates", cuda_graph_update, "rehearse", each=True)
        self.timed("rehearsals of searches", search_rehearsal, "rehearse", each=True)
        self.timed("waiting for kernels", compilation.PendingKernel, "result")
        self.timed("compiled by another process", CompilerProcess, "compile")

    def record(self) -> dict[str, Any]:
        sums = {name: round(seconds, 2) for name, seconds in self.seconds.items()}
        imported = [name for name in HEAVY if name in sys.modules]
        return {"marks": self.marks, "sums": sums, "counts": dict(self.counts), "calls": self.calls, "heavy": imported}


def begin() -> Watch:
    watch = Watch()
    watch.mark("python")
    import torch

    watch.mark("torch imported")
    torch.zeros(1, device="cuda")
    watch.mark("CUDA started")
    import triton  # noqa: F401

    watch.mark("Triton imported")
    watch.watch_triton()
    watch.watch_weft()
    watch.mark("weft imported")
    return watch


def train(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Train for some seconds after the first batch was asked for."""
    watch = begin()
    from weft.training.events import Saved, Started, Step
    from weft.training.train import train

    recipe = train_gpu.recipe(name, folder, [])
    changes = {"steps": 10**9, "validate_every": 0, "save_every": 0, "metric": "loss", "patience": 0}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
    began = float("inf")
    by_second: dict[int, int] = defaultdict(int)
    slow = []
    before = 0.0
    with tempfile.TemporaryDirectory() as run:
        for event in train(recipe, Path(run) / "run"):
            if isinstance(event, Started):
                began = time.monotonic()
                watch.mark("data and model ready")
            if isinstance(event, Saved) or not isinstance(event, Step):
                continue
            passed = time.monotonic() - began
            if event.step in (1, 2, 3, 10, 100, 300):
                watch.mark(f"update {event.step}")
            if passed - before > 0.2:
                slow.append((event.step, round(passed - before, 2)))
            before = passed
            by_second[int(passed)] += event.target_tokens
            if passed > seconds:
                break
    rates = [by_second[second] for second in range(int(seconds))]
    steady = median(rates[len(rates) * 2 // 3 :])
    reached = next((second for second, rate in enumerate(rates) if rate >= 0.9 * steady), None)
    return {
        "workload": name,
        **watch.record(),
        "first update after data and model": round(
            watch.seconds["rehearsing updates"] + watch.marks["update 1"] - watch.marks["data and model ready"], 2
        ),
        "seconds": seconds,
        "steady": steady,
        "share": round(sum(rates) / len(rates) / max(steady, 1), 3),
        "first second at 90 %": reached,
        "stalls over 0.2 s (update, seconds)": slow[:40],
        "stalled": round(sum(stall for _, stall in slow), 2),
        "by second": rates,
        "kernels": watch.kernels,
    }


def translate(run_folder: Path, file: Path, count: int, kinds: list[str]) -> dict[str, Any]:
    """Translate the first lines of a file, again and again."""
    watch = begin()
    import weft

    lines = file.read_text("utf-8").split("\n")[:count]
    run = weft.load(run_folder, device="cuda")
    watch.mark("run loaded")
    passes: dict[str, list[float]] = {}
    for kind in kinds:
        passes[kind] = []
        for number in range(3):
            start = time.perf_counter()
            results = list(run.translate_lines(lines, kind=kind, batch_tokens="auto"))
            passes[kind].append(round(time.perf_counter() - start, 3))
            watch.mark(f"{kind}, pass {number + 1}")
            assert len(results) == len(lines)
            if not number:
                watch.kernels.append({"after the first pass": kind, **watch.record()["sums"]})
    return {"workload": "translate", "lines": len(lines), "passes": passes, **watch.record(), "kernels": watch.kernels}


def in_new_process(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    environment = {**os.environ, **environment, "WEFT_BENCHMARK_BEGAN": str(time.time())}
    command = [sys.executable, __file__, *arguments, "--child"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {"failed": done.returncode, "output": done.stdout[-2000:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(record: dict[str, Any], out: Path | None) -> None:
    kernels = record.pop("kernels", [])
    for line in [record, *(kernel for kernel in kernels if kernel.get("seconds", 1) > SLOW)]:
        print(json.dumps(line), flush=True)
        if out:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=[*train_gpu.SIZES, "translate"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--filled-seconds", type=float, help="of the second process (default: those of the first)")
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--states", nargs="*", default=["cold", "filled"], help="filled alone: the caches given")
    parser.add_argument("--caches", type=Path, help="a folder for the caches (default: a new one for each workload)")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--kinds", nargs="*", default=["beam", "greedy"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        [name] = given.workloads
        if name == "translate":
            found = translate(given.run, given.file, given.lines, given.kinds)
        else:
            found = train(name, given.folder, given.seconds)
        print(json.dumps(found))
        return
    for name in given.workloads:
        with tempfile.TemporaryDirectory() as folder:
            if name != "translate":
                data = Path(folder) / ("train.txt" if name == "lm" else "train.tsv")
                train_gpu.write_pairs(data, given.pairs, train_gpu.SIZES[name]["vocabulary"], targets_only=name == "lm")
            caches = (given.caches or Path(folder) / "caches").absolute()
            for state, seconds in (("cold", given.seconds), ("filled", given.filled_seconds or given.seconds)):
                arguments = [name, "--folder", folder, "--seconds", str(seconds), "--lines", str(given.lines)]
                for option, value in (("--run", given.run), ("--file", given.file)):
                    arguments += [] if value is None else [option, str(value)]
                arguments += ["--kinds", *given.kinds]
                places = {"TRITON_CACHE_DIR": str(caches / "triton"), "XDG_CACHE_HOME": str(caches)}
                if state in given.states:
                    report({"cache": state, **in_new_process(arguments, places)}, given.out)


if __name__ == "__main__":
    main()
