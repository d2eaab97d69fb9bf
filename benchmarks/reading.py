"""Formulas and text lines, judged once: trains, chooses on the validation set, then opens the test set a single time.

    ../shared/data/unpack DIR crohme                                 the folder DIR/crohme, with {train,valid,test}.tsv
    python benchmarks/reading.py formulas DIR --out runs/formulas --seeds 3
    python benchmarks/text_lines.py DIR/lines
    python benchmarks/reading.py text-lines DIR --out runs/lines

DIR is the folder that contains ``crohme`` or ``lines``. For every setting of SETTINGS a run is trained with the first
seed (a killed benchmark resumes where it was), and the one with the best validation metric is trained with the other
seeds. Single runs and the ensemble of all seeds are then searched on the validation set with every search of SEARCHES.
What is best there is evaluated on the test set, as one model and as the best of all; OUT/result.json has the figures,
with the number of settings and searches that were tried. If that file exists, it is printed, and nothing is opened.

``--quick`` checks the whole way with a few steps; its figures mean nothing, and the test set stays closed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import weft

SETTINGS: dict[str, dict[str, list[str]]] = {
    "formulas": {
        "recipe": [],
        "eighths": ["model.stem.widths=[48, 96, 192]", "training.batch_tokens=400000"],
        "transformer": [
            *("model.encoder.kind=transformer", "model.encoder.layers=2", "model.encoder.hidden=256"),
            *("model.encoder.heads=8", "model.encoder.feed_forward=1024", "model.encoder.positions=none"),
            *("model.decoder.kind=transformer", "model.decoder.layers=3", "model.decoder.hidden=256"),
            *("model.decoder.heads=8", "model.decoder.feed_forward=1024", "training.learning_rate=0.0003"),
        ],
    },
    "text-lines": {"recipe": [], "three layers": ["model.encoder.layers=3"], "dropout 0.3": ["model.dropout=0.3"]},
}
"""Changes of the recipe, by name."""
SEARCHES: dict[str, list[dict[str, Any]]] = {
    "formulas": [{"kind": "beam", "size": size, "length_penalty": p} for size in (5, 10) for p in (0.6, 1.0)],
    "text-lines": [{"kind": "greedy"}, {"kind": "beam", "size": 3}, {"kind": "beam", "size": 8}],
}
METRIC = {"formulas": ("token_match", 1), "text-lines": ("character_error_rate", -1)}
"""The metric that decides, and whether more is better."""
QUICK = ["training.steps=20", "training.validate_every=10", "training.warmup=5", "training.save_every=10"]


def trained(task: str, data: Path, folder: Path, changes: list[str], *, keep: bool = True) -> Path:
    """A finished run in this folder; resumed, if it was begun."""
    is_begun = (folder / "recipe.toml").is_file()
    recipe = weft.load_recipe(folder / "recipe.toml" if is_begun and keep else task, [] if is_begun else changes)
    if not (folder / "metrics.json").is_file():
        for event in weft.train(recipe, folder, resume=is_begun):
            if type(event).__name__ == "Validation":
                print(folder.name, event, flush=True)
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
    values: dict[str, float] = {}
    for name, changes in SETTINGS[task].items():
        folder = trained(task, options.data, out / name.replace(" ", "-") / "1", [*changes, *common, "seed=1"])
        values[name] = score(weft.load(folder), task, "valid", limit)[metric]
    best = max(values, key=lambda name: sign * values[name])
    folders = [
        trained(
            task,
            options.data,
            out / best.replace(" ", "-") / str(seed),
            [*SETTINGS[task][best], *common, f"seed={seed}"],
        )
        for seed in range(1, options.seeds + 1)
    ]
    singles = {str(folder): [folder] for folder in folders}
    tried = [*searched(singles | ({"ensemble": folders} if len(folders) > 1 else {}), task, limit)]
    single = max((item for item in tried if item[1] != "ensemble"), key=lambda item: item[0])
    chosen = {"one model": single, "best": max(tried, key=lambda item: item[0])}
    result: dict[str, Any] = {
        "task": task,
        "settings": values,
        "setting": best,
        "searches": len(tried),
        "seeds": options.seeds,
    }
    for name, (value, models, search) in chosen.items():
        result[name] = {"models": models, "search": search, f"valid {metric}": abs(value)}
        if not options.quick:
            run = weft.load(*(folders if models == "ensemble" else singles[models]))
            result[name]["test"] = score(run, task, "test", None, **search)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*SETTINGS])
    parser.add_argument("data", type=lambda name: Path(name).resolve())
    parser.add_argument("--out", type=lambda name: Path(name).resolve(), required=True)
    parser.add_argument("--seeds", type=int, default=1)
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
