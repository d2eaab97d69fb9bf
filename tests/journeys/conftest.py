"""Processes that journeys share, and the table of journeys and steps at the end of ``make journeys``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from journeys.processes import PRELOADED, Processes

SYMBOLS = {"passed": "✓", "failed": "✗", "error": "✗", "skipped": "–"}


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """For whole journeys: what exports import has been imported."""
    server = Processes(PRELOADED)
    yield server
    server.close()


@pytest.fixture(scope="session")
def light_processes() -> Iterator[Processes]:
    """For short journeys."""
    server = Processes()
    yield server
    server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    table: dict[str, dict[str, str]] = {}
    for outcome, symbol in SYMBOLS.items():
        for report in terminalreporter.stats.get(outcome, []):
            named = re.search(r"journeys/test_journeys\.py::test_(\w+)\[(.+)\]$", getattr(report, "nodeid", ""))
            if named is not None:
                table.setdefault(named[2], {}).setdefault(named[1], symbol)
    if table:
        steps = list(dict.fromkeys(step for row in table.values() for step in row))
        steps.sort(key=lambda step: STEPS.index(step) if step in STEPS else len(STEPS))
        terminalreporter.section("journeys")
        width = max(map(len, table))
        for number, step in enumerate(steps):
            terminalreporter.write_line(" " * width + "  " + "│ " * number + f"┌ {step}")
        for name, row in sorted(table.items()):
            terminalreporter.write_line(name.ljust(width) + "  " + " ".join(row.get(step, " ") for step in steps))


STEPS = (
    *("train_and_interrupt", "resume", "load_in_a_new_process", "searches", "score", "evaluate", "attend", "trace"),
    *("compare_with_itself", "report", "export_to_ctranslate2", "export_to_huggingface", "export_to_marian"),
    *("export_to_onnx", "serve", "fine_tune", "train_an_adapter"),
)
