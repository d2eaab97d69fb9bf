"""Which cores a process of a benchmark may use, where several are measured at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def run_round(
    names: Sequence[str], run: Callable[[str, str], Result], *, cores: str, threads: int, round_number: int
) -> list[tuple[str, Result]]:
    """``run(name, cores)`` for each name: in parallel on groups of these cores, or in turn if there are none."""
    groups = core_groups(cores, threads=threads, number=len(names), round_number=round_number)
    with ThreadPoolExecutor(len(names) if cores else 1) as pool:
        return list(zip(names, pool.map(run, names, groups), strict=True))


def core_groups(cores: str, *, threads: int, number: int, round_number: int) -> list[str]:
    """Groups of ``threads`` cores, one for each of a number of processes; each round shifts them by one.

    ``cores``: "FIRST-LAST", or empty: then the groups are empty, and every process may use any core.
    """
    if not cores:
        return [""] * number
    first, last = map(int, cores.split("-"))
    if last - first + 1 < number * threads:
        raise SystemExit(f"--cores {cores}: {number} toolkits with {threads} threads need {number * threads} cores")
    starts = [first + threads * ((place + round_number) % number) for place in range(number)]
    return [",".join(str(start + offset) for offset in range(threads)) for start in starts]


def pinned(command: list[str], cores: str) -> list[str]:
    """The command, limited to these cores."""
    return ["taskset", "-c", cores, *command] if cores else command
