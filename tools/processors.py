"""Run the tests as other processors would: ``make processors``.

No test may depend on how a processor rounds. The suite is run with

    default, avx2, own    the instructions that PyTorch may use: hardly any, AVX2, or all that this machine has
    1 and 2               threads in every operation
    perturbed             initial weights changed by 1e-5 (tests/fixtures/perturbation), with all instructions

The table that is printed and build/processors.json have the tests that failed, by configuration; what pytest printed is
in build/processors/. The exit code is 0 if nothing failed. ``--only default-1,perturbed`` chooses configurations;
further arguments choose tests: ``make processors OPTIONS='--only default-1 tests/models tests/search'``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

INSTRUCTIONS = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "own": {},
}
"""By name, the environment in which PyTorch and MKL use these instructions and no newer ones.

oneDNN stays as it is: its products of bytes overflow without VNNI, and `weft.fast.cpu.int8` asks the processor,
which has it here, whether to allow for that.
"""
PERTURBATION = "WEFT_TEST_PERTURBATION"
THREADS = "OMP_NUM_THREADS"
VARIABLES = {PERTURBATION, THREADS, *(name for variables in INSTRUCTIONS.values() for name in variables)}
CONFIGURATIONS: dict[str, dict[str, str]] = {
    **{
        f"{name}-{threads}": {**variables, THREADS: str(threads)}
        for name, variables in INSTRUCTIONS.items()
        for threads in (1, 2)
    },
    "perturbed": {PERTURBATION: "1e-5", THREADS: "1"},
}
"""By name, the environment of the tests."""


class Result(NamedTuple):
    """How the tests ended in one configuration."""

    configuration: str
    environment: dict[str, str]
    passed: int
    skipped: int
    failed: list[str]
    exit_code: int
    """of pytest: 0 where all tests passed, 1 where some failed, otherwise it could not run them"""
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.failed


def redundant_configurations(capability: str) -> set[str]:
    """Configurations that a machine's own instructions make superfluous; ``capability`` as PyTorch calls it."""
    superfluous = {"AVX512": (), "AVX2": ("avx2",)}.get(capability, ("default", "avx2"))
    return {f"{name}-{threads}" for name in superfluous for threads in (1, 2)}


def read_outcomes(report: Path) -> tuple[Counter[str], list[str]]:
    """How many tests passed and were skipped, and the names of those that failed, from a JUnit report of pytest."""
    counts: Counter[str] = Counter()
    failed = set()
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(f"{case.get('classname')}::{case.get('name')}")
        else:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
    return counts, sorted(failed)


def run_tests(configuration: str, tests: Sequence[str], *, workers: int, folder: Path) -> Result:
    """Run the tests in a configuration; its log and its report are left in a folder."""
    changes = CONFIGURATIONS[configuration]
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    report, log = folder / f"{configuration}.xml", folder / f"{configuration}.txt"
    report.unlink(missing_ok=True)
    options = ["-n", str(workers), "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"]
    begun = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            env={**inherited, "PYTHONDONTWRITEBYTECODE": "", **changes},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    counts, failed = read_outcomes(report) if report.is_file() else (Counter(), [])
    seconds = round(time.monotonic() - begun, 1)
    return Result(configuration, changes, counts["passed"], counts["skipped"], failed, done.returncode, seconds)


def table(results: Sequence[Result]) -> str:
    """One line a configuration, then the names of what failed in it."""
    lines = [f"{'configuration':14} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for result in results:
        counts = f"{result.passed:7} {len(result.failed):7} {result.skipped:8} {result.seconds:8.0f}"
        lines.append(f"{result.configuration:14} {counts}")
        lines += [f"    {name}" for name in result.failed]
        if not result.succeeded and not result.failed:
            lines.append(f"    pytest ended with exit code {result.exit_code}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ", ".join(CONFIGURATIONS)
    parser.add_argument("--only", default=names, help=f"configurations, separated by commas (default: {names})")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (default: 2)")
    parser.add_argument("--report", type=Path, default=Path("build/processors.json"), help="JSON file to write")
    options, tests = parser.parse_known_args(arguments)
    chosen = [name.strip() for name in options.only.split(",")]
    if unknown := [name for name in chosen if name not in CONFIGURATIONS]:
        parser.error(f"--only {unknown[0]}: no such configuration; choose from {names}")
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    redundant = redundant_configurations(capability)
    folder = options.report.parent / "processors"
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for configuration in chosen:
        if configuration in redundant:
            print(f"{configuration}: {capability} is all that this machine has; see own-1 and own-2", flush=True)
            continue
        result = run_tests(configuration, tests, workers=options.workers, folder=folder)
        results.append(result)
        print(f"{configuration}: {result.passed} passed, {len(result.failed)} failed", file=sys.stderr, flush=True)
    print(table(results))
    content = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {capability}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "configurations": [result._asdict() for result in results],
    }
    options.report.write_text(json.dumps(content, indent=1), "utf-8")
    return 0 if all(result.succeeded for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
