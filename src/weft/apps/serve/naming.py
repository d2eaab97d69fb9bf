"""The runs that are served, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from weft.errors import DataError
from weft.runs.adapted_run import AdaptedRun

Run = Path | str | tuple[Path | str, ...]
"""A run folder, or RUN:ADAPTER; several: those of an ensemble."""


def members(run: Run) -> tuple[AdaptedRun, ...]:
    """A run, or the runs of an ensemble."""
    return tuple(AdaptedRun.parse(one) for one in ((run,) if isinstance(run, Path | str) else run))


def check_run(name: str, run: Run) -> None:
    """Fail if one of these is not a run, or does not have the adapter."""
    runs = members(run)
    if not runs:
        raise DataError(f"serve: {name}: an ensemble of no runs; expected at least one run folder")
    for number, member in enumerate(runs):
        member.check()
        if number and member.adapter is not None:
            raise DataError(f"serve: {name}: {member}: in an ensemble only the first run can have an adapter")


def parse_run(text: str) -> Run:
    """A run, or RUN+RUN, an ensemble; a folder that exists is one run, whatever its name."""
    if "+" not in text or AdaptedRun.parse(text).path.exists():
        return Path(text)
    if not all(text.split("+")):
        raise DataError(f"RUN: {text}: + separates the run folders of an ensemble; expected RUN+RUN")
    return tuple(map(Path, text.split("+")))


def name_runs(runs: Iterable[Run], used: Mapping[str, Run] | None = None) -> dict[str, Run]:
    """Runs by the name of their folder (and adapter), with a number where that is used already."""
    named: dict[str, Run] = {}
    for run in runs:
        folder = "+".join(member.name for member in members(run))
        name, number = folder, 1
        while name in named or name in (used or {}):
            number += 1
            name = f"{folder}-{number}"
        named[name] = Path(run) if isinstance(run, str) else run
    return named
