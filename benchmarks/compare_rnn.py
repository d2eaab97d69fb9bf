"""weft and its rivals one after the other, several rounds, on the recurrent training workload: a table of ratios.

    python benchmarks/compare_rnn.py --rivals /work/rivals --data /work/rivals/data --rounds 2 --seconds 45

Needs the rivals installed (benchmarks/rivals/README.md) and a quiet machine: rounds with fewer than 1.8 cores at work
are thrown away and said so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
CASES = [("general", ["weft", "opennmt", "fairseq", "joey"]), ("additive", ["weft", "opennmt", "joey"])]
LEAST_CORES = 1.8


def command(who: str, attention: str, given: argparse.Namespace) -> list[str]:
    common = ["--data", str(given.data), "--attention", attention, "--seconds", str(given.seconds)]
    if who == "weft":
        return [sys.executable, str(HERE / "train_rnn.py"), *common]
    return [str(given.rivals / who / "bin/python"), str(HERE / "rivals/rnn.py"), "--rival", who, *common]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--attention", choices=["general", "additive"], action="append")
    given = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for number in range(given.rounds):
        for attention, names in CASES:
            if given.attention and attention not in given.attention:
                continue
            for who in names:
                done = subprocess.run(
                    command(who, attention, given), capture_output=True, text=True, cwd=HERE / "rivals"
                )
                if not done.stdout.strip():  # fairseq aborts as it leaves, its line printed
                    print(f"{who} {attention}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
                    continue
                line = json.loads(done.stdout.splitlines()[-1])
                print(f"round {number + 1} " + json.dumps(line), file=sys.stderr, flush=True)
                if line["cores"] >= LEAST_CORES:
                    found.setdefault((attention, who), []).append(line)
    print("| attention | toolkit | target tokens/s, median of rounds [windows] | weft is |")
    print("|---|---|---|---|")
    for (attention, who), lines in found.items():
        speeds = [line["target_tokens_per_second"] for line in lines]
        windows = [speed for line in lines for speed in line["windows"]]  # type: ignore[attr-defined]
        ours = found.get((attention, "weft"))
        ratio = ""
        if ours and who != "weft":
            ratio = f"{median([line['target_tokens_per_second'] for line in ours]) / median(speeds):.2f} ×"
        name = f"{who} {lines[0]['version']}"
        print(f"| {attention} | {name} | {median(speeds):.0f} [{min(windows):.0f}–{max(windows):.0f}] | {ratio} |")


if __name__ == "__main__":
    main()
