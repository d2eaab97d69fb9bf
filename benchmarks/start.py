"""How long ``weft translate RUN`` takes to start beside ``import torch``, and what loading a run takes: lines of JSON.

    python benchmarks/start.py RUN [--rounds 5]

CPU seconds (user and system) of whole processes, taken in turns; the least of the rounds counts. Each process
translates one word, so take a trained run, whose outputs end. ``load``: seconds of `weft.load` after ``import torch``,
the imports of weft included, and the growth of the peak memory, beside the size of the weights. Python must be allowed
to write bytecode (no PYTHONDONTWRITEBYTECODE).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

LOADING = """
import json, resource, sys, time
import torch
torch.set_num_threads(1)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds, wall, memory = time.process_time(), time.perf_counter(), peak()
import weft
model = weft.load(sys.argv[1], device="cpu", engine="torch").model
print(json.dumps({
    "load_cpu_seconds": round(time.process_time() - seconds, 3),
    "load_seconds": round(time.perf_counter() - wall, 3),
    "load_peak_mb": round((peak() - memory) / 1024),
    "weights_mb": round(sum(weight.numel() * weight.element_size() for weight in model.parameters()) / 2**20),
}))
"""


def cpu_seconds(command: list[str]) -> float:
    """CPU time of one process from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=b"x\n", capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    commands = {
        "import torch": [sys.executable, "-c", "import torch"],
        "weft translate": [
            *(sys.executable, "-m", "weft", "translate", str(given.run), "--device", "cpu", "--engine", "torch")
        ],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(given.rounds + 1):  # the first round fills caches
        for name, command in commands.items():
            times[name].append(cpu_seconds(command))
    best = {name: min(taken[1:]) for name, taken in times.items()}
    ratio = best["weft translate"] / best["import torch"]
    print(json.dumps({**{name: round(seconds, 3) for name, seconds in best.items()}, "ratio": round(ratio, 3)}))
    loading = [sys.executable, "-c", LOADING, str(given.run)]
    for _ in range(2):
        print(subprocess.run(loading, capture_output=True, text=True, check=True).stdout.strip())


if __name__ == "__main__":
    main()
