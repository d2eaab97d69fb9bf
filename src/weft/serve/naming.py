"""The names under which runs are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from weft.runs.adapted_run import AdaptedRun


def name_runs(runs: Iterable[Path | str], used: Mapping[str, Path] | None = None) -> dict[str, Path]:
    """Runs by the name of their folder (and adapter), with a number where that is used already."""
    named: dict[str, Path] = {}
    for run in map(Path, runs):
        folder = AdaptedRun.parse(run).name
        name, number = folder, 1
        while name in named or name in (used or {}):
            number += 1
            name = f"{folder}-{number}"
        named[name] = run
    return named
