"""The automatic choice against the best hand-made recipe, on public sets of pairs from 500 to 160,000.

    python benchmarks/automatic.py --data DATA --minutes 4 --parallel 14            train and evaluate, then the table
    python benchmarks/automatic.py --data DATA --hand --sets kb13 eutrans           the hand-made recipes instead
    python benchmarks/automatic.py --table results.jsonl …                          the table of earlier results

For each set, `weft train FOLDER --minutes N`, no other setting given, then `weft evaluate` on the test part by the
metric of the hand-made recipe. DATA contains the sets as folders, or packed as NAME.tar.xz. Given validation and test
parts are used; others are split off by weft. A result is appended to results.jsonl in --out as soon as it is available.
Figures of the hand-made recipes are means of one to three seeds on the test set, by the commands in the headers of the
recipes, or by --hand; None was not measured. The rules were made on the sets of the half "rules"; those of "check" were
kept aside.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

PARTS = {"train": "train", "valid": "val", "test": "test"}
"""The parts, and how the names of their files begin."""
Sections = dict[str, dict[str, Any]]
G2P = "sigmorphon2021_g2p"
INFLECTION = "sigmorphon2023_inflection"
MEDIUM: Sections = {"training": {"steps": 3000, "validate_every": 500}}
KOREAN: Sections = {**MEDIUM, "tokenizer": {"decompose": True}}
FEW: Sections = {"training": {"steps": 1600, "validate_every": 100, "batch_tokens": 1024, "average": 5}}
UNTOKENIZED: Sections = {"tokenizer": {"split_punctuation": True}, "training": {"metric": "bleu"}}
LONGER: Sections = {"training": {"steps": 5000}}
SHORT: Sections = {"training": {"steps": 3000, "warmup": 500, "validate_every": 300}}
NO_VALIDATION: Sections = {
    "data": {"valid": "none"},
    "training": {"metric": "loss", "validate_every": 0, "average": 1},
}


class PairSet(NamedTuple):
    """A set of pairs and the recipe that was made for it by hand."""

    name: str
    """Its folder."""
    half: str
    """Whether the rules were made with it ("rules"), or it was kept aside ("check")."""
    metric: str
    hand: str
    """The shipped recipe that the best hand-made one is, or extends."""
    figure: float | None
    """Score of the hand-made recipe on the test set."""
    changes: Sections | None = None
    """Settings of the hand-made recipe beside those of the shipped one."""
    sides: tuple[str, str] | None = None
    """The endings of the files of sources and targets, where a folder has several languages or another order."""

    @property
    def label(self) -> str:
        return self.name if self.sides is None else f"{self.name} {self.sides[0]}–{self.sides[1]}"

    @property
    def file_name(self) -> str:
        return self.label.replace("/", "-").replace(" ", "-").replace("–", "-")


SETS = [
    PairSet("uspto50k_retro", "rules", "token_match", "retrosynthesis", 46.0),
    PairSet("aeslc", "rules", "rouge_1", "summarization", 25.9),
    PairSet("tatoeba_fra-eng", "rules", "chrf", "tatoeba", 68.6, sides=("fr", "en")),
    PairSet("ua_gec", "check", "edit_f05", "correction", 49.2, {"data": {"pipeline": []}}),
    PairSet("multi30k/tok", "rules", "bleu_tokenized", "multi30k-transformer", 41.1, sides=("en", "de")),
    PairSet("multi30k/raw", "check", "bleu", "multi30k-transformer", 59.9, UNTOKENIZED, sides=("en", "fr")),
    PairSet("small_parallel_enja", "rules", "bleu_tokenized", "multi30k-transformer", 42.3, sides=("ja", "en")),
    PairSet("e2e_nlg", "rules", "bleu_lowercase", "e2e", 67.6),
    PairSet("text2sql/atis/question_split/anon", "rules", "token_match", "text2sql", 59.5, LONGER),
    PairSet("django", "rules", "token_match", "django", 73.1),
    PairSet(f"{G2P}/high/eng_us", "rules", "exact_match", "g2p-lstm", 58.2),
    PairSet(f"{INFLECTION}/deu", "rules", "exact_match", "inflection", 85.0),
    PairSet(f"{INFLECTION}/fin", "rules", "exact_match", "inflection", 86.4),
    PairSet(f"{INFLECTION}/tur", "rules", "exact_match", "inflection", 95.5),
    PairSet("scan/simple", "rules", "exact_match", "scan", 99.8),
    PairSet("scan/length", "rules", "exact_match", "scan", 21.4),
    PairSet("scan/addprim_turn_left", "rules", "exact_match", "scan", 57.8),
    PairSet("scan/addprim_jump", "rules", "exact_match", "scan", 0.5),
    PairSet("nl_regex/nlrx_turk", "check", "token_match", "regex", 45.1),
    PairSet("nl_regex/nlrx_synth", "check", "token_match", "regex", 87.2),
    PairSet("babi/qa1_single-supporting-fact", "rules", "exact_match", "babi", 99.5),
    PairSet(f"{G2P}/medium/kor", "rules", "exact_match", "g2p-hard", 82.2, KOREAN),
    PairSet(f"{G2P}/medium/fre", "check", "exact_match", "g2p", 91.0, SHORT),
    PairSet(f"{G2P}/medium/hun", "check", "exact_match", "g2p-hard", 98.7, MEDIUM),
    PairSet("eutrans", "rules", "bleu_tokenized", "multi30k-transformer", 99.4, sides=("es", "en")),
    PairSet("text2sql/geography/question_split/anon", "rules", "token_match", "text2sql", 71.2),
    PairSet("nl_regex/kb13", "rules", "token_match", "regex", 53.9, NO_VALIDATION),
    PairSet(f"{G2P}/low/ita", "check", "exact_match", "g2p-hard", 77.3, FEW),
    PairSet(f"{G2P}/low/ady", "rules", "exact_match", "g2p-hard", 74.3, FEW),
]  # fmt: skip
"""The slowest first, so that they do not begin last."""


def unpack(pair_set: PairSet, data: Path, out: Path) -> Path:
    """The folder of a set, from its archive if that is all there is."""
    if (data / pair_set.name).is_dir():
        return (data / pair_set.name).resolve()
    name = pair_set.name.split("/")[0]
    folder = out.resolve() / "data"
    if not (folder / name).is_dir():
        with tarfile.open(data / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder / pair_set.name


def input_of(pair_set: PairSet, folder: Path, out: Path) -> Path:
    """The folder to train on: that of the set, or one whose two files are linked as sources and targets."""
    if pair_set.sides is None:
        return folder
    linked = out.resolve() / "inputs" / pair_set.file_name
    linked.mkdir(parents=True, exist_ok=True)
    for part, beginning in PARTS.items():
        for side, ending in zip(pair_set.sides, ("src", "tgt"), strict=True):
            link = linked / f"{part}.{ending}"
            link.unlink(missing_ok=True)
            link.symlink_to(next(folder.glob(f"{beginning}*.{side}")))
    return linked


def hand_made(pair_set: PairSet, folder: Path, out: Path) -> Path:
    """The hand-made recipe as a file: JSON is TOML for texts, numbers, lists and truth values."""
    sections: Sections = {"data": {"folder": str(folder)}}
    lines = [f'extends = "{pair_set.hand}"']
    for section, changes in (pair_set.changes or {}).items():
        sections[section] = sections.get(section, {}) | changes
    for section, settings in sections.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in settings.items())]
        if section == "data" and pair_set.sides is not None:
            lines += [
                f'{part} = {{ source = "{part}.src", target = "{part}.tgt" }}' for part in ("train", "valid", "test")
            ]
    recipe = out / "recipes" / f"{pair_set.file_name}.toml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.write_text("\n".join(lines) + "\n", "utf-8")
    return recipe


def weft(arguments: list[str], log: Path, end: float) -> int:
    """Run a command until its end, or until a time at which it is asked to stop; its exit code."""
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "WEFT_NO_PROGRESS": "1"}
    with log.with_suffix(".out").open("wb") as stdout, log.with_suffix(".err").open("wb") as stderr:
        command = [sys.executable, "-m", "weft", *arguments]
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
        try:
            return process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # the run is saved, and its best checkpoint can be evaluated
        try:
            process.wait(40)
            return 0
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def decision(recipe: dict[str, Any]) -> str:
    """The main settings of a run in a few words."""
    tokenizer, model = recipe["tokenizer"], recipe["model"]
    kinds = [tokenizer["kind"], tokenizer.get("target_kind", "same")]
    units = kinds[0] if kinds[1] in ("same", kinds[0]) else f"{kinds[0]} to {kinds[1]}"
    encoder, decoder = model["encoder"], model["decoder"]
    name = {"gru": "GRU", "lstm": "LSTM", "transformer": "Transformer"}.get(encoder["kind"], encoder["kind"])
    size = (
        f"{encoder['hidden']}"
        if encoder["kind"] != "transformer"
        else (f"{encoder['layers']} + {decoder['layers']} × {encoder['hidden']}")
    )
    extras = [f"{tokenizer['size']:,} ids"] if "bpe" in kinds else []
    extras += ["copying"] if model.get("copy") else []
    extras += ["hard attention"] if model["attention"]["hard"] != "none" else []
    training = recipe["training"]
    steps = f"dropout {model['dropout']:g}, {training['steps']:,} × {training['batch_tokens']:,} tokens"
    return ", ".join([units, f"{name} {size}", *extras, steps])


def last_event(run: Path, kind: str) -> dict[str, Any]:
    """The last event of a kind in the log of a run."""
    log = run / "log.jsonl"
    events = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    return next((event for event in reversed(events) if event.get("event") == kind), {})


def run_set(pair_set: PairSet, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train on a set and evaluate on its test part; what came out, or the last line of the error."""
    out: Path = options.out
    result: dict[str, Any] = {"set": pair_set.label, "by": "hand" if options.hand else "automatic"}
    result |= {"seed": seed, "limit": options.minutes, "metric": pair_set.metric}
    if time.monotonic() > options.end:
        return result | {"error": "no time was left"}
    start = time.monotonic()
    name = f"{pair_set.file_name}-{result['by']}-{seed}"
    run, log = out / "runs" / name, out / "logs" / name
    try:
        folder = input_of(pair_set, unpack(pair_set, options.data, out), out)
    except (OSError, StopIteration) as error:
        return result | {"error": f"no data: {error!r}"}
    what = hand_made(pair_set, folder, out) if options.hand else folder
    arguments = ["train", str(what), "--out", str(run), "--set", f"seed={seed}", *options.arguments]
    arguments += ["--minutes", str(options.minutes)] if options.minutes else []
    arguments += ["--set", f"training.device={options.device}"] if options.device else []
    code = weft(arguments, log, options.end)
    result["minutes"] = round((time.monotonic() - start) / 60, 2)
    if (run / "recipe.toml").exists():
        result["decision"] = decision(tomllib.loads((run / "recipe.toml").read_text("utf-8")))
        result["pairs"] = last_event(run, "started").get("pairs")
        result |= {key: last_event(run, "finished").get(key) for key in ("step", "reason")}
    if code == 0:
        evaluate = ["evaluate", str(run), "--metric", pair_set.metric, "--json"]
        evaluate += ["--references", "grouped" if pair_set.name == "e2e_nlg" else "each"]
        log = log.with_name(f"{name}-test")
        code = weft(evaluate, log, time.monotonic() + 300)
    if code == 0:
        report = json.loads(log.with_suffix(".out").read_text("utf-8"))
        return result | {"score": next(iter(report["metrics"].values()))["value"]}
    lines = log.with_suffix(".err").read_text("utf-8").strip().splitlines()
    return result | {"error": lines[-1] if lines else f"exit code {code}"}


def read_results(paths: list[Path]) -> list[dict[str, Any]]:
    """The results of files of JSON lines; of a set and a seed, the last one."""
    results = {}
    for path in paths:
        for result in map(json.loads, path.read_text("utf-8").splitlines()):
            if "score" in result:
                results[result["set"], result["by"], result["seed"]] = result
    return list(results.values())


def mean_score(results: list[dict[str, Any]]) -> float | None:
    return sum(result["score"] for result in results) / len(results) if results else None


def table(results: list[dict[str, Any]]) -> str:
    """Markdown: a row for each set, the rule half first; the mean over seeds."""
    lines = [
        "| set | pairs | decision | metric | automatic | hand-made | difference | minutes |",
        "|---|---:|---|---|---:|---:|---:|---:|",
    ]
    for half in ("rules", "check"):
        differences = []
        for pair_set in (pair_set for pair_set in SETS if pair_set.half == half):
            own = [result for result in results if result["set"] == pair_set.label]
            runs = [result for result in own if result["by"] == "automatic"]
            automatic, hand = mean_score(runs), mean_score([result for result in own if result["by"] == "hand"])
            hand = pair_set.figure if hand is None else hand
            if automatic is None:
                continue
            difference = None if hand is None else automatic - hand
            differences += [] if difference is None else [difference]
            minutes = sum(result["minutes"] for result in runs) / len(runs)
            cut = f", stopped for time at {runs[0]['step']:,}" if runs[0].get("reason") == "time" else ""
            cells = [pair_set.label, f"{runs[0]['pairs']:,}", runs[0]["decision"] + cut, pair_set.metric]
            cells.append(f"{automatic:.1f}")
            cells += ["–" if hand is None else f"{hand:.1f}", "–" if difference is None else f"{difference:+.1f}"]
            lines.append(f"| {' | '.join([*cells, f'{minutes:.1f}'])} |")
        if differences:
            mean, worst = sum(differences) / len(differences), min(differences)
            lines.append(f"| **{half}: {len(differences)} sets** | | | | | | mean {mean:+.1f}, worst {worst:+.1f} | |")
    return "\n".join(lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that contains the sets, or their archives")
    parser.add_argument("--out", type=Path, default=Path("build/automatic"), help="folder of runs and results.jsonl")
    parser.add_argument("--results", type=Path, help="file of the results; by default results.jsonl in --out")
    parser.add_argument("--minutes", type=float, default=10, help="time limit of each training; 0: none")
    parser.add_argument("--sets", nargs="+", help="names of sets, or parts of them")
    parser.add_argument("--parallel", type=int, default=1, help="sets at a time")
    parser.add_argument("--device", help="cpu or cuda; by default what weft finds")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds after which training stops")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--hand", action="store_true", help="train the hand-made recipes, not the automatic choice")
    parser.add_argument("--table", type=Path, nargs="+", metavar="RESULTS", help="only print their table")
    parser.add_argument("arguments", nargs="*", help="after --: further arguments of weft train")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.table:
        print(table(read_results(options.table)))
        return
    options.end = time.monotonic() + options.deadline
    out: Path = options.out
    for folder in ("runs", "logs"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    chosen = [one for one in SETS if options.sets is None or any(part in one.label for part in options.sets)]
    if options.parallel > 1 and options.device != "cpu" and shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True)
    record = options.results or out / "results.jsonl"
    for pair_set in chosen:  # before the threads begin, as several sets are in one archive
        unpack(pair_set, options.data, out)
    with ThreadPoolExecutor(options.parallel) as pool:
        jobs = [pool.submit(run_set, pair_set, seed, options) for seed in options.seeds for pair_set in chosen]
        for future in as_completed(jobs):
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(future.result(), ensure_ascii=False) + "\n")
            print(json.dumps(future.result(), ensure_ascii=False), flush=True)
    print(table(read_results([record])))


if __name__ == "__main__":
    main()
