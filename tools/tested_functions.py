"""A pytest plugin that records which functions of weft each test calls, and how long the test takes.

    PYTHONPATH=src:tools python -m pytest -p tested_functions --tested-functions FILE

FILE is JSON: ``{"tests": {test: {"seconds": 0.1, "passed": true, "functions": ["search/beam.py:Beam.step", …]}}}``. A
function that a fixture calls counts for every test that uses the fixture. What other processes call is not recorded.
`tools/mutants.py` reads it to run the tests that can notice a change: ``--only-tests FILE`` runs the tests and test
files that FILE lists, in that order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).parent.parent / "src" / "weft") + "/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tested-functions", metavar="FILE", help="write the functions that each test calls to FILE")
    parser.addoption("--only-tests", metavar="FILE", help="run the tests and test files that FILE lists, in that order")
    parser.addoption("--except-tests", default="", help="tests not to run, one a line")
    parser.addoption("--current-test", metavar="FILE", help="write the test that runs and the processor time to FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--tested-functions")
    if path:
        config.pluginmanager.register(Recorder(Path(path)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--only-tests")
    if path:
        order = {name: index for index, name in enumerate(Path(path).read_text("utf-8").split("\n"))}
        excepted = config.getoption("--except-tests").split("\n")
        ranked = []
        for item in (item for item in items if item.nodeid not in excepted):
            names = (item.nodeid, item.nodeid.split("[")[0], item.nodeid.split("::")[0])
            ranks = [order[name] for name in names if name in order]
            if ranks:
                ranked.append((min(ranks), item))
        items[:] = [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


def pytest_runtest_setup(item: pytest.Item) -> None:
    path = item.config.getoption("--current-test")
    if path:
        Path(path).write_text(f"{item.nodeid} {sum(os.times()[:4]):.1f}", "utf-8")


class Recorder:
    """Records calls into a dictionary that is exchanged when a test or a fixture starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: dict[int, CodeType] = {}  # by id: hashing a code object is slow
        self.of_fixtures: dict[Any, dict[int, CodeType]] = {}
        self.tests: dict[str, dict[str, Any]] = {}
        self.failed: set[str] = set()

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        self.calls[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        outer, self.calls = self.calls, {}
        try:
            return (yield)
        finally:
            self.of_fixtures.setdefault(fixturedef, {}).update(self.calls)
            self.calls = outer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.calls = {}
        started = time.perf_counter()
        sys.settrace(self.trace)
        threading.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            calls = dict(self.calls)
            for definitions in item._fixtureinfo.name2fixturedefs.values():
                for definition in definitions:
                    calls.update(self.of_fixtures.get(definition, {}))
            names = {_name(code) for code in calls.values() if code.co_filename.startswith(SOURCE)}
            self.tests[item.nodeid] = {
                "seconds": round(time.perf_counter() - started, 3),
                "passed": item.nodeid not in self.failed,
                "functions": sorted(names),
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps({"tests": self.tests}, indent=0), "utf-8")


def _name(code: CodeType) -> str:
    """``search/beam.py:Beam.step``: functions inside a function count as that function."""
    return f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname.split('.<locals>')[0]}"
