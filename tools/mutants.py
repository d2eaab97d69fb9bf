"""Break lines of weft one at a time, and see whether the tests notice: ``make mutants N=50 SEED=1``.

The breakages are those of `tools/mutations.py`; the seed decides which. Each is made in a copy of the tree, where the
tests most likely to notice run first: those that name the setting or the function, the mirrored test file, those that
import the module, and its package's; then all others that call the function, until one fails or the limit is reached.
With --record, which test calls which function is recorded (`tools/tested_functions.py`), once, and again for test
files that have changed; that takes as long as the tests.

A mutation that cannot change any result is listed with the reason in tools/equivalent_mutants.toml, and never drawn.
The exit code is 0 if at least 95 % were caught.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
SETTING_TESTS = ROOT / "tests" / "contracts" / "test_settings.py"
TARGET = 0.95
SHARE_OF_SETTINGS = 0.4
"""The share of the drawn mutations that ignore a setting."""
COUNTER = itertools.count()
PASSING: set[str] = set()
"""Tests known to pass without a breakage."""
FAILING: set[str] = set()
"""Tests that fail without one: they catch nothing."""
PRELOADED = (
    "torch",
    "numpy",
    "pytest",
    "hypothesis",
    "pydantic",
    "typer",
    "rich",
    "sacrebleu",
    "tokenizers",
    "pyarrow",
)
"""Imported once, before the processes that run the tests are forked; nothing of weft."""
LAUNCHING = ("tests/apps/cli/commands/test_train_workers.py",)
"""Test files that start so many processes that they run only for the files they mirror."""
MOST_NAMING = 30
"""Test functions that run because they name a setting or a function."""
HANGS_AFTER = 30
"""Seconds of processor time that no test needs."""
WALL_FACTOR = 10
"""On a busy machine, a second of processor time may take as many seconds."""


@dataclass
class Outcome:
    """The outcome of a mutation."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    result: str
    """caught, survived, or hung, which counts as caught"""
    test: str
    """The first test that failed."""
    seconds: float


class TestRecord:
    """Which test calls which functions: a JSON file, kept up to date."""

    __test__ = False

    def __init__(self, path: Path | None) -> None:
        self.path = path
        content = json.loads(path.read_text("utf-8")) if path is not None and path.is_file() else {}
        self.tests: dict[str, dict[str, Any]] = content.get("tests", {})
        self.hashes: dict[str, str] = content.get("hashes", {})

    def update(self) -> None:
        """Record test files that are new or have changed; one process, as long as the tests take."""
        if self.path is None:
            return
        current = {str(path.relative_to(ROOT)): _hash(path) for path in (ROOT / "tests").rglob("test_*.py")}
        stale = sorted(name for name, value in current.items() if self.hashes.get(name) != value)
        if not stale:
            return
        print(f"recording which functions {len(stale)} test files call", file=sys.stderr)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".part")
        plugin = ["-p", "tested_functions", "--tested-functions", str(fresh)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *stale]
        subprocess.run(command, cwd=ROOT, env=_environment(ROOT), stdout=subprocess.DEVNULL, check=False)
        known = {test: calls for test, calls in self.tests.items() if test.split("::")[0] not in stale}
        self.tests = {**known, **json.loads(fresh.read_text("utf-8"))["tests"]}
        self.hashes = current
        self.path.write_text(json.dumps({"tests": self.tests, "hashes": current}, indent=0), "utf-8")
        fresh.unlink()

    def tests_of(self, file: str, function: str) -> list[str]:
        """The tests to run, in order: those that call the function (or, outside functions, anything in the file)."""
        name = f"{file}:{function}"
        calls = [
            test
            for test, record in self.tests.items()
            if record.get("passed", True)
            and (name in record["functions"] or (not function and any(f"{file}:" in f for f in record["functions"])))
        ]
        mirrored = tuple(mirrored_tests(file))
        return sorted(calls, key=lambda test: (not test.startswith(mirrored), self.tests[test]["seconds"]))


def mirrored_tests(file: str) -> list[str]:
    """``search/beam.py``: tests/search/test_beam.py, tests/search/test_beam_*.py"""
    path = Path(file)
    folder = ROOT / "tests" / path.parent
    name = path.parent.name if path.stem == "__init__" else path.stem.rstrip("_")
    return [
        str(found.relative_to(ROOT))
        for found in sorted([*folder.glob(f"test_{name}.py"), *folder.glob(f"test_{name}_*.py")])
    ]


def likely_tests(mutation: Any) -> Iterator[list[str]]:
    """Tests and test files in stages, in the order in which they are likely to notice.

    The mirrored test files; the tests of the setting; the test files that import the module, beginning with the tests
    that name the setting or the function; tests that name it in files that import the package; all others that name
    it; the package's.
    """
    module = "weft." + mutation.file.removesuffix(".py").replace("/", ".")
    package = module.rpartition(".")[0]
    word = mutation.word or mutation.function.split(".")[-1]
    mirrored, near = mirrored_tests(mutation.file), str(Path("tests", mutation.file).parent)
    importing, of_package = [], sorted(str(path.relative_to(ROOT)) for path in (ROOT / near).glob("test_*.py"))
    naming: dict[str, list[str]] = {}
    related = set(of_package)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        content, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
        naming[name] = [f"{name}::{test}" for test in tests_naming(word, content)]
        if package in content:
            related.add(name)
        if module in content and name not in (*mirrored, *LAUNCHING):
            importing.append(name)
    yield [*(test for name in mirrored for test in naming[name]), *mirrored]
    yield setting_tests(mutation.word)
    yield [*(test for name in importing for test in naming[name]), *importing]
    rest = [name for name in naming if name not in (*mirrored, *importing, *LAUNCHING)]
    yield [test for name in rest for test in naming[name] if name in related]
    yield [test for name in rest for test in naming[name] if name not in related][:MOST_NAMING]
    yield [name for name in of_package if name in rest]


def setting_tests(word: str) -> list[str]:
    """The tests that show that a setting of this name reaches the code."""
    if not word:
        return []
    names = re.findall(rf'"((?:[\w.]+\.)?{word})": \(', SETTING_TESTS.read_text("utf-8"))
    names += [f"model.{side}.{word}:transformer" for side in ("encoder", "decoder")]
    file = str(SETTING_TESTS.relative_to(ROOT))
    return [f"{file}::test_a_setting_changes_the_{what}[{name}]" for name in names for what in ("run", "search")] + (
        [f"{file}::test_the_seed_decides_initial_weights_batches_and_dropout"] if word == "seed" else []
    )


def tests_naming(word: str, content: str) -> list[str]:
    """The test functions of a file in which a word occurs."""
    if not word or not re.search(rf"\b{word}\b", content):
        return []
    lines = content.splitlines()
    return [
        function.name if owner is None else f"{owner.name}::{function.name}"
        for body, owner in [(ast.parse(content).body, None)]
        + [(node.body, node) for node in ast.parse(content).body if isinstance(node, ast.ClassDef)]
        for function in body
        if isinstance(function, ast.FunctionDef)
        and function.name.startswith("test_")
        and re.search(rf"\b{word}\b", "\n".join(lines[function.lineno - 1 : function.end_lineno]))
    ]


def draw(mutations: list[Any], count: int, seed: int, kinds: Sequence[str]) -> list[Any]:
    """Mutations of different lines: a share of ignored settings, the rest in equal parts of every other kind."""
    generator = random.Random(seed)
    by_kind: dict[str, list[Any]] = {}
    for mutation in mutations:
        by_kind.setdefault(mutation.kind, []).append(mutation)
    for group in by_kind.values():
        generator.shuffle(group)
    settings = round(count * SHARE_OF_SETTINGS) if "setting ignored" in kinds else 0
    others = [kind for kind in kinds if kind != "setting ignored"]
    order = ["setting ignored"] * (settings if others else count)
    order += [others[index % len(others)] for index in range(count - len(order))]
    drawn: dict[tuple[str, int], Any] = {}
    for kind in order:
        while by_kind.get(kind):
            mutation = by_kind[kind].pop()
            content = (ROOT / "src" / "weft" / mutation.file).read_bytes()
            if (mutation.file, mutation.line) not in drawn and mutation.is_valid(content):
                drawn[mutation.file, mutation.line] = mutation
                break
    return list(drawn.values())


def run_mutant(mutation: Any, tree: Path, record: TestRecord, limit: float) -> Outcome:
    """Break the line in the copy of the tree, run the tests, restore the line."""
    path = tree / "src" / "weft" / mutation.file
    original = path.read_bytes()
    stat = path.stat()
    started = time.perf_counter()
    stages = [*likely_tests(mutation), record.tests_of(mutation.file, mutation.function)]
    result, test, seconds_left = "survived", "", limit
    try:
        path.write_bytes(mutation.apply(original))
        os.utime(path, (stat.st_mtime, stat.st_mtime + 2 + next(COUNTER)))  # for Python's cache, each is another file
        for tests in stages:
            if tests and result == "survived" and not test:
                result, test, used = run_tests(tree, tests, max(seconds_left, 1))
                seconds_left -= used
    finally:
        path.write_bytes(original)
        os.utime(path, (stat.st_mtime, stat.st_mtime))
    if result == "caught" and "::" in test and test not in PASSING:
        if run_tests(tree, [test], limit)[0] != "survived":  # it fails without the breakage too
            FAILING.add(test)
            return run_mutant(mutation, tree, record, limit)
        PASSING.add(test)
    seconds = round(time.perf_counter() - started, 1)
    return Outcome(mutation.file, mutation.line, mutation.kind, mutation.before, mutation.after, result, test, seconds)


def run_tests(tree: Path, tests: Sequence[str], limit: float) -> tuple[str, str, float]:
    """Whether one of these tests fails, which, and the processor time; in a forked process: torch is imported once."""
    chosen, current, log = tree / "only-tests.txt", tree / "current-test.txt", tree / "tests.log"
    chosen.write_text("\n".join(test for test in tests if test not in FAILING), "utf-8")
    files = [name for name in dict.fromkeys(test.split("::")[0] for test in tests) if (tree / name).is_file()]
    options = [
        "-x",
        "-rfE",
        "--tb=no",
        "--only-tests",
        str(chosen),
        "--except-tests",
        "\n".join(FAILING),
        "--current-test",
        str(current),
    ]
    current.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        _run_pytest(tree, [*options, *files], log, limit)
    deadline = time.monotonic() + WALL_FACTOR * limit
    status = None
    try:
        while status is None and time.monotonic() < deadline and not _is_stuck(current):
            time.sleep(0.1)
            ended, status_word, usage = os.wait4(process, os.WNOHANG)
            status = os.waitstatus_to_exitcode(status_word) if ended else None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    if status is None:
        _, _, usage = os.wait4(process, 0)
    used = usage.ru_utime + usage.ru_stime
    if status in (0, 5):
        return "survived", "", used
    if status is None or status in (-signal.SIGXCPU, -signal.SIGKILL):
        test, started = current.read_text("utf-8").rsplit(" ", 1) if current.is_file() else ("", "0")
        hung = used - float(started) > HANGS_AFTER or _is_stuck(current)
        return "hung" if hung else "survived", test if hung else f"(limit reached at {test})", used
    lines = [line for line in log.read_text("utf-8").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "caught", lines[0].split(" - ")[0].split(" ", 1)[1] if lines else f"exit code {status}", used


def _is_stuck(current: Path) -> bool:
    """Whether the test that runs began longer ago than any test takes: it waits for what does not happen."""
    return current.is_file() and time.time() - current.stat().st_mtime > WALL_FACTOR * HANGS_AFTER


def _run_pytest(tree: Path, arguments: Sequence[str], log: Path, limit: float) -> NoReturn:
    """In a forked process: run pytest on the copy of the tree."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        os.environ.update(_environment(tree))
        sys.dont_write_bytecode = False
        for name in [name for name in sys.modules if name.split(".")[0] == "weft"]:
            del sys.modules[name]  # imported from the other tree, to find the settings
        sys.path[:0] = [str(tree / "src"), str(tree / "tools")]
        weft = importlib.import_module("weft")
        assert Path(str(weft.__file__)).is_relative_to(tree)
        import pytest

        code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "tested_functions", *arguments])
        sys.stdout.flush()
    finally:
        os._exit(code)


def _environment(tree: Path) -> dict[str, str]:
    path = os.pathsep.join([str(tree / "src"), str(tree / "tools")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def copy_tree(target: Path) -> None:
    """A copy of what git tracks or would track."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def without_equivalent(mutations: list[Any]) -> Iterator[Any]:
    """All but those that tools/equivalent_mutants.toml lists, by file and text of the line."""
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8")).get("mutant", []) if EQUIVALENT.is_file() else []
    known = {(entry["file"], entry["before"], entry["after"]) for entry in listed}
    return (mutation for mutation in mutations if (mutation.file, mutation.before, mutation.after) not in known)


def main() -> int:
    from mutations import OPERATORS, all_mutations

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-n", type=int, default=50, help="number of breakages (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--kind", action="append", choices=[*OPERATORS], help="only breakages of this kind; repeatable")
    parser.add_argument(
        "--file", action="append", help="only in files whose path below src/weft starts with this; repeatable"
    )
    parser.add_argument("--limit", type=float, default=90, help="processor time for each, in seconds (default: 90)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="also run all tests that call the function")
    parser.add_argument("--again", type=Path, metavar="REPORT", help="those that survived in a report, and no others")
    parser.add_argument("--list", action="store_true", help="print the breakages drawn, and run nothing")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "mutants.json")
    arguments = parser.parse_args()
    found = [one for one in all_mutations(ROOT / "src" / "weft") if one.file.startswith(tuple(arguments.file or [""]))]
    if arguments.again:
        mutants = json.loads(arguments.again.read_text("utf-8"))["mutants"]
        survived = {(one["file"], one["before"], one["after"]) for one in mutants if one["result"] == "survived"}
        drawn = [one for one in found if (one.file, one.before, one.after) in survived]
    else:
        drawn = draw(list(without_equivalent(found)), arguments.n, arguments.seed, arguments.kind or [*OPERATORS])
    if arguments.list:
        for mutation in drawn:
            print(f"{mutation.file}:{mutation.line}: {mutation.kind}: {mutation.before}  ->  {mutation.after}")
        return 0
    record = TestRecord(arguments.record)
    record.update()
    outcomes: list[Outcome] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for module in PRELOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="weft-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for number, mutation in enumerate(drawn, 1):
            outcome = run_mutant(mutation, tree, record, arguments.limit)
            outcomes.append(outcome)
            print(f"{number:3}/{len(drawn)} {outcome.file}:{outcome.line} [{outcome.kind}] {outcome.seconds:.0f} s")
            print(
                f"        {outcome.before}\n     -> {outcome.after}\n        {outcome.result} {outcome.test}",
                flush=True,
            )
            write_report(arguments, outcomes)
    return print_summary(outcomes, arguments.seed)


def write_report(arguments: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    content = {"seed": arguments.seed, "n": arguments.n, "mutants": [asdict(outcome) for outcome in outcomes]}
    arguments.report.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def print_summary(outcomes: Sequence[Outcome], seed: int) -> int:
    survived = [outcome for outcome in outcomes if outcome.result == "survived"]
    for outcome in survived:
        print(f"survived: {outcome.file}:{outcome.line}: {outcome.before}  ->  {outcome.after}")
    totals, lost = Counter(outcome.kind for outcome in outcomes), Counter(outcome.kind for outcome in survived)
    print("  ".join(f"{kind}: {totals[kind] - lost[kind]}/{totals[kind]}" for kind in sorted(totals)))
    caught = len(outcomes) - len(survived)
    share = caught / max(len(outcomes), 1)
    print(f"seed {seed}: {caught} of {len(outcomes)} caught ({share:.0%})")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
