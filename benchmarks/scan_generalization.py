"""Generalization on the splits of SCAN, one change of a setting at a time.

    python benchmarks/scan_generalization.py --data scan --parallel 12 --steps 4000

Trains the recipe `scan` with `weft train`, several runs side by side on one GPU, and prints a table of exact match on
the test set of each split: the simple split has test commands like those of training; *length* has longer action
sequences than training, *addprim_jump* and *addprim_turn_left* have combinations of a command that was trained on alone
(jump), or not in these combinations (turn left). In brackets: exact match on 5 % of the training pairs, held out in
every run: generalization within the training distribution. Results are appended to results.jsonl in the output folder
as soon as a run is done; finished runs with the same number of steps are not repeated. Needs only weft.

The base setting "lstm" is the recipe without label smoothing, with the weights of the last step; "transformer" has
Transformers of two layers instead. Every other row changes one thing in one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

SPLITS = ("simple", "addprim_turn_left", "addprim_jump", "length")
HELD_OUT = 0.05

TRANSFORMER = {"layers": 2, "hidden": 128, "heads": 4, "feed_forward": 256, "norm_placement": "pre"}


def with_positions(kind: str) -> dict[str, Any]:
    sides = ("model.encoder", "model.decoder")
    return {side: {"kind": "transformer", **TRANSFORMER, "positions": kind} for side in sides}


def by_validation(metric: str, average: int = 1) -> dict[str, Any]:
    """Ten validations on held-out training pairs; the best checkpoint, or the mean of several if it is better."""
    return {"training": {"metric": metric, "average": average, "valid_sentences": 1000}}


def transformer(**changes: dict[str, Any]) -> dict[str, Any]:
    return {**with_positions("sinusoidal"), **changes}


def by_location() -> dict[str, Any]:
    """The automatic choice for SCAN: small GRUs, location attention, high dropout (docs/own-pairs.md)."""
    stacks = {side: {"kind": "gru", "hidden": 128} for side in ("model.encoder", "model.decoder")}
    stacks["model.decoder"]["input_feeding"] = False
    attention = {"score": "additive", "location": True, "placement": "before"}
    return {**stacks, "model.attention": attention, "model": {"dropout": 0.5}, "training": {"learning_rate": 0.002}}


VARIANTS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru 128, location attention, dropout 0.5": by_location(),
    "lstm, label smoothing 0.1": {"training": {"label_smoothing": 0.1}},
    "lstm, no tied embeddings": {"model": {"tie": "none"}},
    "lstm, dropout 0.5": {"model": {"dropout": 0.5}},
    "lstm, best by held-out loss": by_validation("loss"),
    "transformer": transformer(),
    "transformer, label smoothing 0.1": transformer(training={"label_smoothing": 0.1}),
    "transformer, no tied embeddings": transformer(model={"tie": "none"}),
    "transformer, all embeddings tied": transformer(model={"tie": "all"}, tokenizer={"joint": True}),
    "transformer, rotary positions": with_positions("rotary"),
    "transformer, relative positions": with_positions("relative"),
    "transformer, no positions": with_positions("none"),
    "transformer, no dropout": transformer(model={"dropout": 0.0}),
    "transformer, best by held-out loss": transformer(**by_validation("loss")),
    "transformer, best by held-out exact match": transformer(**by_validation("exact_match")),
    "transformer, mean of the 5 best by held-out loss": transformer(**by_validation("loss", average=5)),
}


class Job(NamedTuple):
    """One run: a variant on a split."""

    variant: str
    split: str
    seed: int

    @property
    def name(self) -> str:
        words = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in self.variant)
        return f"{self.split}-{words}-{self.seed}"


def hold_out(data: Path, folder: Path) -> None:
    """Write the training pairs of a split, 5 % of them as validation pairs, and the test pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    sides = {side: (data / f"train.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")}
    count = len(sides["src"])
    held_out = set(random.Random(1).sample(range(count), round(HELD_OUT * count)))
    for side, lines in sides.items():
        for name, chosen in (("valid", True), ("train", False)):
            kept = [line for number, line in enumerate(lines) if (number in held_out) is chosen]
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in kept), "utf-8")
        (folder / f"test.{side}").write_text((data / f"test.{side}").read_text("utf-8"), "utf-8")


def recipe_of(job: Job, data: Path, steps: int) -> str:
    """The recipe of a run as TOML: JSON is TOML for texts, numbers and truth values."""
    validates = "metric" in VARIANTS[job.variant].get("training", {})
    sections: dict[str, dict[str, Any]] = {
        "data": {"folder": str(data.resolve() / job.split)},
        "training": {
            "steps": steps,
            "warmup": min(400, steps // 4),
            "label_smoothing": 0.0,
            "validate_every": max(steps // 10, 1) if validates else 0,
            "save_every": steps,
        },
    }
    for section, changes in VARIANTS[job.variant].items():
        sections[section] = sections.get(section, {}) | changes
    lines = ['extends = "scan"', f"seed = {job.seed}"]
    for section, settings in sections.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in settings.items())]
        if section == "data":
            lines.append('valid = { source = "valid.src", target = "valid.tgt" }')
    return "\n".join(lines) + "\n"


def weft(arguments: list[str], out: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    command = [sys.executable, "-m", "weft", *arguments]
    return subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True)


def run(job: Job, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate; what came out, or the last line of the error."""
    result: dict[str, Any] = {**job._asdict(), "steps": options.steps}
    if time.monotonic() > options.end:
        return result | {"error": "no time was left"}
    name = f"{job.name}-{options.steps}"
    recipe = out / "recipes" / f"{name}.toml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(recipe_of(job, out / "data", options.steps), "utf-8")
    start = time.monotonic()
    done = weft(["train", f"recipes/{name}.toml", "--out", f"runs/{name}"], out)
    result["seconds"] = round(time.monotonic() - start, 1)
    limit = ["--limit", str(options.limit)] if options.limit else []
    for split in ("test", "valid") if done.returncode == 0 else ():
        arguments = ["evaluate", f"runs/{name}", "--split", split, "--metric", "exact_match", "--json", *limit]
        done = weft(arguments, out)
        if done.returncode:
            break
        result[split] = json.loads(done.stdout)["metrics"]["exact match"]["value"]
    return result | ({"error": done.stderr.strip().splitlines()[-1]} if done.returncode else {})


def read_results(record: Path, steps: int) -> list[dict[str, Any]]:
    """The results so far of runs of this many steps."""
    lines = record.read_text("utf-8").splitlines() if record.exists() else []
    return [one for one in map(json.loads, lines) if one["steps"] == steps]


def table(results: list[dict[str, Any]], splits: list[str]) -> str:
    """Markdown: a row for each variant, the mean over seeds."""
    lines = [f"| change | {' | '.join(splits)} |", "|---" * (len(splits) + 1) + "|"]
    for variant in VARIANTS:
        cells = []
        for split in splits:
            runs = [one for one in results if (one["variant"], one["split"]) == (variant, split) and "valid" in one]
            means = [sum(one[name] for one in runs) / len(runs) for name in ("test", "valid")] if runs else []
            cells.append(f"{means[0]:.1f} ({means[1]:.1f})" if means else "")
        if any(cells):
            lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that contains the splits")
    parser.add_argument("--out", type=Path, default=Path("build/scan"), help="folder of the runs and results.jsonl")
    parser.add_argument("--parallel", type=int, default=4, help="runs at a time")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=SPLITS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--limit", type=int, help="evaluate on the first N pairs only")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds after which no run is started")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    options.end = time.monotonic() + options.deadline
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    for split in options.splits:
        hold_out(options.data / split, out / "data" / split)
    record = out / "results.jsonl"
    results = read_results(record, options.steps)
    finished = {Job(one["variant"], one["split"], one["seed"]) for one in results}
    jobs = [Job(v, split, seed) for seed in options.seeds for v in options.variants for split in options.splits]
    with ThreadPoolExecutor(options.parallel) as pool:
        for future in as_completed([pool.submit(run, job, out, options) for job in jobs if job not in finished]):
            result = future.result()
            print(json.dumps(result), flush=True)
            if "error" not in result:
                results.append(result)
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
    print(table(results, options.splits))


if __name__ == "__main__":
    main()
