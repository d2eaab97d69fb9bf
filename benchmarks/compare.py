"""Training speed of weft and other toolkits on one workload, in turn, over several rounds: a table of ratios.

    python benchmarks/compare.py --model rnn --rivals $RIVALS --data $RIVALS/data --rounds 2 --seconds 45
    python benchmarks/compare.py --model transformer --rivals $RIVALS --data $RIVALS/data

Needs the other toolkits (benchmarks/rivals/README.md) and a quiet machine: rounds with fewer than 1.8 busy cores
are discarded with a message. With `--cores 0-5` the toolkits of a round run at the same time, each on two of these
cores; in the next round each has the cores of its neighbor.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pinning import pinned, run_round

HERE = Path(__file__).parent
TOOLKITS = {  # of each model and, for the rnn, each attention; weft first
    ("rnn", "general"): ["weft", "opennmt", "fairseq", "joey"],
    ("rnn", "additive"): ["weft", "opennmt", "joey"],
    ("transformer", None): ["weft", "fairseq", "hf", "hf-compiled", "opennmt", "eole", "sockeye", "joey"],
}
NAMES = sorted({name for names in TOOLKITS.values() for name in names})
LEAST_CORES = 1.8

Case = tuple[str, str | None]  # model, attention


def command(who: str, case: Case, given: argparse.Namespace) -> list[str]:
    model, attention = case
    common = ["--model", model, "--data", str(given.data.resolve()), "--seconds", str(given.seconds)]
    common += ["--threads", str(given.threads), "--warmup", str(given.warmup), "--window", str(min(15, given.seconds))]
    common += ["--matmul", given.matmul]
    if attention:
        common += ["--attention", attention]
    if who == "weft":
        changes = [word for change in given.set for word in ("--set", change)]
        return [sys.executable, str(HERE / "train.py"), *common, *changes]
    python = given.rivals.absolute() / who.partition("-")[0] / "bin/python"  # variants share an environment
    return [str(python), str(HERE / "rivals/train.py"), "--rival", who, *common]


def measure(who: str, case: Case, cores: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """One run, as the line it prints; None if it failed. ``cores``: the cores that it may use; empty: all."""
    words = pinned(command(who, case, given), cores)
    done = subprocess.run(words, capture_output=True, text=True, cwd=HERE / "rivals")
    if not done.stdout.strip():  # the status says little: fairseq aborts as it leaves, its line printed
        print(f"{who} {' '.join(filter(None, case))}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def is_quiet(line: dict[str, Any] | None, threads: int) -> bool:
    return line is not None and line["cores"] >= LEAST_CORES / 2 * threads


def table(found: dict[tuple[Case, str], list[dict[str, Any]]]) -> Iterator[str]:
    yield "| model | toolkit | parameters | target tokens/s, median of rounds [windows] | weft is |"
    yield "|---|---|---|---|---|"
    for (case, who), lines in found.items():
        speed = median(line["target_tokens_per_second"] for line in lines)
        windows = [speed for line in lines for speed in line["windows"]]
        ours = found.get((case, "weft"))
        ratio = ""
        if ours and who != "weft":
            ratio = f"{median(line['target_tokens_per_second'] for line in ours) / speed:.2f} ×"
        name, parameters = f"{who} {lines[0]['version']}", f"{lines[0]['parameters'] / 1e6:.2f} M"
        measured = f"{speed:.0f} [{min(windows):.0f}–{max(windows):.0f}]"
        yield f"| {', '.join(filter(None, case))} | {name} | {parameters} | {measured} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["rnn", "transformer"], required=True)
    parser.add_argument(
        "--attention", choices=["general", "additive"], action="append", help="of the rnn; both if none"
    )
    parser.add_argument("--toolkit", choices=NAMES, action="append", help="may be repeated; all if none")
    parser.add_argument("--rivals", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=20, help="steps that are not counted")
    parser.add_argument("--matmul", choices=["highest", "medium"], default="highest", help="as in train.py")
    parser.add_argument(
        "--cores", metavar="FIRST-LAST", default="", help="run the toolkits of a round in parallel on these cores"
    )
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="change weft's recipe")
    given = parser.parse_args()
    cases = [
        (case, [name for name in names if name in (given.toolkit or NAMES)])
        for case, names in TOOLKITS.items()
        if case[0] == given.model and case[1] in (given.attention or ["general", "additive", None])
    ]
    found: dict[tuple[Case, str], list[dict[str, Any]]] = {}
    for number in range(1, given.rounds + 1):
        for case, names in cases:

            def run(who: str, cores: str, number: int = number, case: Case = case) -> dict[str, Any] | None:
                line = measure(who, case, cores, given)
                note = "" if is_quiet(line, given.threads) else "thrown away, too few cores: "
                if line is not None:
                    print(f"round {number} {note}" + json.dumps(line), file=sys.stderr, flush=True)
                return line

            for who, line in run_round(names, run, cores=given.cores, threads=given.threads, round_number=number):
                if line is not None and is_quiet(line, given.threads):
                    found.setdefault((case, who), []).append(line)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
