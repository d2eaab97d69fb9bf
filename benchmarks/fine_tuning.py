"""Adapters against fine-tuning all weights and training from scratch: a model of captions learns everyday sentences.

    python benchmarks/fine_tuning.py --data DATA --out OUT --parallel 16        train, choose, evaluate; then the table
    python benchmarks/fine_tuning.py --table OUT/results.jsonl                  the table of earlier results

DATA contains multi30k and tatoeba_fra-eng, as folders or packed as NAME.tar.xz. The base run is `multi30k-transformer`
for English → French on untokenized Multi30k. It is adapted to a random sample of Tatoeba's training pairs. The learning
rate of each method is chosen by BLEU on the validation set with seed 1. The chosen one is repeated with other seeds,
and only these runs translate the test sets: that of Tatoeba (the new task) and that of Multi30k (the former one).
Every result is appended to results.jsonl as soon as it is available.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

CAPTIONS, SENTENCES = "multi30k", "tatoeba_fra-eng"
MULTI30K = {part: f"multi30k/raw/{name}" for part, name in
            (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr"))}  # fmt: skip
TATOEBA = {part: f"tatoeba_fra-eng/{part}" for part in ("train", "valid", "test")}
BASE = {"tokenizer.split_punctuation": True, "training.metric": "bleu", "evaluation.metrics": ["bleu", "chrf"]}
ADAPTING = {
    "training.schedule": "cosine",
    "training.warmup": 100,
    "training.average": 3,
    "training.valid_sentences": 1000,
    "training.save_every": 0,
}


class Method(NamedTuple):
    """A way to get a model of the new task, and the learning rates that it is tried with."""

    name: str
    rates: tuple[float, ...]
    settings: dict[str, Any]
    from_base: bool = True
    mixed: bool = False
    """Whether the pairs of the former task are trained on as well, half of each batch."""


def lora(rank: int, *targets: str) -> dict[str, Any]:
    return {"training.lora.rank": rank, "training.lora.targets": list(targets or "*")}


METHODS = [
    Method("all weights", (1e-4, 3e-4, 1e-3), {}),
    Method("LoRA, rank 4", (1e-3, 3e-3, 1e-2), lora(4)),
    Method("LoRA, rank 16", (1e-3, 3e-3, 1e-2), lora(16)),
    Method("LoRA, rank 64", (1e-3, 3e-3, 1e-2), lora(64)),
    Method("LoRA, rank 16, query and value", (3e-3, 1e-2), lora(16, "query", "value")),
    Method("all weights, Multi30k mixed in", (), {}, mixed=True),
    Method("from scratch", (1e-3, 2e-3), {"tokenizer.size": 4000, "training.warmup": 400}, from_base=False),
]
COLUMNS = [
    *("learning rate", "trained weights", "stored", "peak memory", "seconds"),
    *("validation BLEU", "test BLEU (chrF); range", "former test BLEU"),
]
LIKE = {"all weights, Multi30k mixed in": "all weights"}
"""Methods that take the learning rate of another one."""


class Plan(NamedTuple):
    """Where the pairs are, and how long is trained."""

    out: Path
    base_steps: int
    steps: int
    scratch_steps: int
    changes: list[str]

    @property
    def base(self) -> Path:
        return self.out / "runs/base"

    def pairs(self, name: str, part: str) -> Path:
        return self.out / f"{name}.{part}.tsv"

    def data(self, name: str) -> dict[str, Any]:
        return {f"data.{part}": str(self.pairs(name, part)) for part in ("train", "valid", "test")}

    def base_job(self, *, evaluate: bool) -> dict[str, Any]:
        steps = {"training.steps": self.base_steps, "training.validate_every": self.base_steps // 8}
        settings = {**self.data(CAPTIONS), **BASE, **steps, "training.warmup": self.base_steps // 4}
        job = {"name": "base", "method": "base", "rate": 2e-3, "settings": settings}
        return {**job, "evaluate": [SENTENCES, CAPTIONS] if evaluate else []}

    def job(self, method: Method, rate: float, seed: int, *, evaluate: bool) -> dict[str, Any]:
        steps = self.steps if method.from_base else self.scratch_steps
        data = self.data(SENTENCES)
        if method.mixed:
            files = [self.pairs(name, "train") for name in (SENTENCES, CAPTIONS)]
            data["data.train"] = [{"file": str(file), "source": 1, "target": 2, "weight": 1.0} for file in files]
        settings = {**data, **BASE, **ADAPTING, **method.settings, "training.learning_rate": rate, "seed": seed}
        settings |= {"training.steps": steps, "training.validate_every": steps // 6}
        start = str(self.base) if method.from_base else None
        name = f"{method.name.replace(', ', '-').replace(' ', '-')}-{rate:g}-{seed}"
        job = {"name": name, "method": method.name, "rate": rate, "seed": seed, "settings": settings, "start": start}
        return {**job, "evaluate": [SENTENCES, CAPTIONS] if evaluate else []}


def write_pairs(data: Path, plan: Plan, size: int) -> None:
    """The pairs of both tasks as TSV files; of Tatoeba a random sample: ``size`` for training, 1,000 for validation."""
    plan.out.mkdir(parents=True, exist_ok=True)
    for name in (CAPTIONS, SENTENCES):
        if not (data / name).is_dir():
            with tarfile.open(data / f"{name}.tar.xz") as archive:
                archive.extractall(plan.out / "data", filter="data")
    for name, parts in ((CAPTIONS, MULTI30K), (SENTENCES, TATOEBA)):
        root = data if (data / name).is_dir() else plan.out / "data"
        for part, path in parts.items():
            lines = [(root / f"{path}.{side}").read_text("utf-8").split("\n")[:-1] for side in ("en", "fr")]
            rows = [f"{source}\t{target}\n" for source, target in zip(*lines, strict=True)]
            if name == SENTENCES and part != "test":
                rows = random.Random(1).sample(rows, min(len(rows), size if part == "train" else 1000))
            plan.pairs(name, part).write_text("".join(rows), "utf-8")


def run_job(job: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Train, if the run is not there yet, and evaluate; in a separate process."""
    import torch

    from weft.evaluation.evaluate import evaluate
    from weft.recipe import load_recipe
    from weft.recipe.toml import toml_value
    from weft.runs.weights import read_shapes
    from weft.training.events import Averaged, Finished, Validation
    from weft.training.train import train
    from weft.translation.load import load

    folder = plan.out / "runs" / job["name"]
    record = {name: job.get(name) for name in ("name", "method", "rate", "seed")}
    if not folder.exists():
        changes = [f"{name}={toml_value(value)}" for name, value in job["settings"].items()]
        recipe = load_recipe("multi30k-transformer", [*changes, *plan.changes], start=job.get("start"))
        best = 0.0
        for event in train(recipe, folder):
            if isinstance(event, Validation | Averaged):
                best = max(best, event.metrics["bleu"])
            elif isinstance(event, Finished):
                record |= {"seconds": round(event.seconds, 1), "best_step": event.best_step, "steps": event.step}
        record["valid"] = best
        if torch.cuda.is_available():
            record["memory_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        stored = [folder / "model.safetensors", *folder.glob("adapters/*/adapter_model.safetensors")][-1]
        record["stored_bytes"] = stored.stat().st_size
        record["parameters"] = sum(map(math.prod, read_shapes(stored).values()))
    if job["evaluate"]:
        model = load(folder)
        for name in job["evaluate"]:
            report = evaluate(model, plan.pairs(name, "test"), ["bleu", "chrf"])
            record[name] = {score.name.lower(): round(score.value, 2) for score in report.scores}
            record["signature"] = report.scores[0].signature
    return record


class Runner:
    """Runs jobs in processes side by side, and records their results."""

    def __init__(self, arguments: list[str], plan: Plan, parallel: int, deadline: float) -> None:
        self.arguments, self.plan, self.end = arguments, plan, time.monotonic() + deadline
        self.pool = ThreadPoolExecutor(parallel)
        self.results: list[dict[str, Any]] = []

    def run(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results of jobs, in their order; those that failed or came too late are left out."""
        found = list(self.pool.map(self._run, jobs))
        return [record for record in found if record is not None]

    def _run(self, job: dict[str, Any]) -> dict[str, Any] | None:
        command = [sys.executable, __file__, *self.arguments, "--job", json.dumps(job)]
        try:
            left = max(self.end - time.monotonic(), 1.0)
            ended = subprocess.run(command, capture_output=True, text=True, timeout=left, env=environment())
        except subprocess.TimeoutExpired:
            print(f"{job['name']}: no time left", flush=True)
            return None
        if ended.returncode:
            print(f"{job['name']}: {ended.stderr[-600:]}", flush=True)
            return None
        record = json.loads(ended.stdout.splitlines()[-1])
        self.results.append(record)
        with (self.plan.out / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)
        return record


def environment() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", **os.environ, "WEFT_NO_PROGRESS": "1"}


def compare(runner: Runner, plan: Plan, seeds: list[int]) -> None:
    """Each method: its trials with one seed, then the chosen rate with all seeds; most need the base run."""
    chosen: dict[str, float] = {}

    def run(method: Method) -> None:
        if method.from_base:
            base.result()
        if method.name in LIKE:
            methods[LIKE[method.name]].result()
        tries = runner.run([plan.job(method, rate, seeds[0], evaluate=False) for rate in method.rates])
        if tries:
            chosen[method.name] = max(tries, key=lambda each: each["valid"])["rate"]
        rate = chosen.get(LIKE.get(method.name, method.name))
        if rate is not None:
            runner.run([plan.job(method, rate, seed, evaluate=True) for seed in seeds])

    with ThreadPoolExecutor(len(METHODS) + 1) as threads:
        base = threads.submit(runner.run, [plan.base_job(evaluate=False)])
        methods = {}
        for method in METHODS:
            methods[method.name] = threads.submit(run, method)
        base.result()
        runner.run([plan.base_job(evaluate=True)])
    for each in methods.values():
        each.result()


def table(results: list[dict[str, Any]]) -> str:
    """A row for each method: means over seeds of the chosen learning rate."""
    lines = [
        f"| {' | '.join(['', *COLUMNS])} |",
        f"|{'---|' * (len(COLUMNS) + 1)}",
    ]
    for name in ["base", *(method.name for method in METHODS)]:
        evaluated = [each for each in results if each["method"] == name and SENTENCES in each]
        if not evaluated:
            continue
        rate = evaluated[0]["rate"]
        trained = [each for each in results if each["method"] == name and each["rate"] == rate and "valid" in each]
        new = [each[SENTENCES]["bleu"] for each in evaluated]
        former = [each[CAPTIONS]["bleu"] for each in evaluated]
        chrf = mean(each[SENTENCES]["chrf"] for each in evaluated)
        scores = f"{mean(new):.2f} ({chrf:.1f}); {min(new):.2f}–{max(new):.2f}"
        first = trained[0]
        lines.append(
            f"| {name} | {rate:g} | {first['parameters']:,} | {first['stored_bytes'] / 1e6:.2f} MB | "
            f"{first.get('memory_mib', 0):,} MiB | {mean(each['seconds'] for each in trained):.0f} | "
            f"{mean(each['valid'] for each in trained):.2f} | {scores} | {mean(former):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("fine-tuning"))
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=10_000, help="training pairs of Tatoeba")
    parser.add_argument("--steps", type=int, nargs=3, default=(4000, 1000, 3000), help="base, adapting, from scratch")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--deadline", type=float, default=1e6, help="seconds after which no run goes on")
    parser.add_argument("--set", action="append", default=[], dest="changes", help="a setting of all runs")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--job", help="for the processes of runs")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text("utf-8").splitlines()]))
        return
    plan = Plan(options.out.resolve(), *options.steps, options.changes)
    if options.job:
        print(json.dumps(run_job(json.loads(options.job), plan)))
        return
    write_pairs(options.data, plan, options.pairs)
    arguments = ["--out", str(plan.out), "--steps", *map(str, options.steps)]
    arguments += [f"--set={change}" for change in options.changes]
    runner = Runner(arguments, plan, options.parallel, options.deadline)
    compare(runner, plan, options.seeds)
    print(table(runner.results))


if __name__ == "__main__":
    main()
