"""Formulas and text lines, judged once: trains, chooses on the validation set, then opens the test set a single time.

    ../shared/data/unpack DIR crohme                                 the folder DIR/crohme, with {train,valid,test}.tsv
    python benchmarks/reading.py formulas DIR --out runs/formulas --seeds 3
    python benchmarks/text_lines.py DIR/lines
    python benchmarks/reading.py text-lines DIR --out runs/lines

DIR is the folder that contains ``crohme`` or ``lines``. Every setting of SETTINGS (or of ``--only``) is trained with
every seed (a killed benchmark resumes where it was). Single runs and ensembles, of the seeds of a setting and of all
runs, are then searched on the validation set with every search of SEARCHES. What is best there is evaluated on the
test set, as one model and as the best of all; OUT/result.json has the figures, with the number of settings and searches
that were tried. If that file exists, it is printed, and nothing is opened.

``--at-least 40`` keeps the test set closed if the metric of validation is worse than this.
``--minutes 13 --parallel 3`` trains each run for so long, as many at a time as given: steps and validations of the
recipe are reduced to what fits. ``--quick`` checks the whole way with a few steps; its figures mean nothing, and the
test set stays closed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import weft

SETTINGS: dict[str, dict[str, list[str]]] = {
    "formulas": {
        "recipe": [],
        "larger batches": [
            *("training.batch_tokens=3200000", "training.learning_rate=0.0008", "training.steps=11000"),
            *("training.warmup=1000", "training.validate_every=500"),
        ],
        "weaker dropout": ["model.dropout=0.2"],
        "coverage": [
            *("model.decoder.kind=gru", "model.decoder.layers=1", "model.attention.score=additive"),
            *("model.attention.coverage=sum", "model.attention.placement=before", "training.learning_rate=0.001"),
            "training.batch_tokens=1600000",
        ],
    },
    "text-lines": {"recipe": [], "three layers": ["model.encoder.layers=3"], "dropout 0.3": ["model.dropout=0.3"]},
}
"""Changes of the recipe, by name."""
SEARCHES: dict[str, list[dict[str, Any]]] = {
    "formulas": [{"kind": "greedy"}, *({"kind": "beam", "size": 10, "length_penalty": p} for p in (0.6, 1.0))],
    "text-lines": [{"kind": "greedy"}, {"kind": "beam", "size": 3}],
}
METRIC = {"formulas": ("token_match", 1), "text-lines": ("character_error_rate", -1)}
"""The metric that decides, and whether more is better."""
QUICK = ["training.steps=20", "training.validate_every=10", "training.warmup=5", "training.save_every=10"]


def trained(task: str, folder: Path, changes: list[str], minutes: float | None) -> Path:
    """A finished run in this folder; resumed, if it was begun."""
    if not (folder / "metrics.json").is_file():
        is_begun = (folder / "recipe.toml").is_file()
        recipe = weft.load_recipe(folder / "recipe.toml" if is_begun else task, [] if is_begun else changes)
        limit = {} if is_begun else {"minutes": minutes, "evaluate": False}
        for event in weft.train(recipe, folder, resume=is_begun, **limit):
            if type(event).__name__ != "Step":
                print(folder.parent.name, folder.name, event, flush=True)
    return folder


def score(run: Any, task: str, split: str, limit: int | None, **search: Any) -> dict[str, float]:
    """All metrics of the recipe, by name."""
    scores = weft.evaluate(run, split=split, limit=limit, **search).scores
    return {item.name.replace(" ", "_"): float(item.value) for item in scores}


def searched(runs: dict[str, list[Path]], task: str, limit: int | None) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """Validation metric, name of the models and search, of all that are tried."""
    metric, sign = METRIC[task]
    for name, folders in runs.items():
        run = weft.load(*folders)
        for search in SEARCHES[task]:
            value = score(run, task, "valid", limit, **search)[metric]
            print(f"{name}: {search} {metric} {value:.2f} on validation", flush=True)
            yield sign * value, name, search


def judge(options: argparse.Namespace) -> dict[str, Any]:
    task, out, limit = options.task, options.out, 20 if options.quick else None
    common = [f"training.device={options.device}", *(QUICK if options.quick else []), *options.set]
    metric, sign = METRIC[task]
    os.chdir(options.data)  # the recipes name their folder relative to the current one
    spawn = multiprocessing.get_context("spawn")

    def train(runs: list[tuple[str, int]]) -> list[Path]:
        with ProcessPoolExecutor(options.parallel, spawn) as pool:
            trainings = [
                pool.submit(
                    trained,
                    task,
                    out / name.replace(" ", "-") / str(seed),
                    [*SETTINGS[task][name], *common, f"seed={seed}"],
                    options.minutes,
                )
                for name, seed in runs
            ]
            return [training.result() for training in trainings]

    names = options.only or [*SETTINGS[task]]
    runs = [(name, seed) for name in names for seed in range(1, options.seeds + 1)]
    folders = dict(zip(runs, train(runs), strict=True))
    models = {str(folder): [folder] for folder in folders.values()}
    if options.seeds > 1:
        models |= {
            f"{name}, all seeds": [folders[name, seed] for other, seed in runs if other == name] for name in names
        }
    if len(names) > 1:
        models["all runs"] = [*folders.values()]
    tried = [*searched(models, task, limit)]
    single = max((item for item in tried if len(models[item[1]]) == 1), key=lambda item: item[0])
    chosen = {"one model": single, "best": max(tried, key=lambda item: item[0])}
    result: dict[str, Any] = {"task": task, "settings": names, "searches": len(tried), "seeds": options.seeds}
    for name, (value, model, search) in chosen.items():
        result[name] = {"models": model, "search": search, f"valid {metric}": abs(value)}
        if name == "best" and chosen["best"] == single:
            result["best"] = result["one model"]
        elif not options.quick and (options.at_least is None or value >= sign * options.at_least):
            result[name]["test"] = score(weft.load(*models[model]), task, "test", None, **search)
            print(name, result[name], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*SETTINGS])
    parser.add_argument("data", type=lambda name: Path(name).resolve())
    parser.add_argument("--out", type=lambda name: Path(name).resolve(), required=True)
    parser.add_argument("--only", action="append", choices=[name for task in SETTINGS.values() for name in task])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="for the training of each run; by default, as its recipe says")
    parser.add_argument("--parallel", type=int, default=1, help="runs that are trained at a time")
    parser.add_argument("--at-least", type=float, help="of the validation metric: otherwise the test set stays closed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a change of every run")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    path = options.out / "result.json"
    if not path.is_file():
        options.out.mkdir(parents=True, exist_ok=True)
        result = judge(options)
        if options.quick:
            print(json.dumps(result, indent=1))
            return
        path.write_text(json.dumps(result, indent=1) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()
