"""The events of a tuning run. `tune` yields them and prints nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.apps.tuning.candidates import Candidate
    from weft.apps.tuning.plan import TuningPlan
    from weft.apps.tuning.result import TuningResult


@dataclass(frozen=True)
class TuningEvent:
    """Something happened."""


@dataclass(frozen=True)
class TuningStarted(TuningEvent):
    """The candidates are chosen; their speed is measured next."""

    candidates: list[Candidate]
    parallel: int
    """The number of candidates that train in parallel."""
    path: str


@dataclass(frozen=True)
class Planned(TuningEvent):
    """The number of steps is chosen."""

    plan: TuningPlan
    left_out: list[str]
    """Candidates for which the time is too short."""
    recipe_steps: int
    seconds_left: float


@dataclass(frozen=True)
class RungStarted(TuningEvent):
    """Candidates train to a step."""

    rung: int
    """Counted from 1."""
    rungs: int
    step: int
    candidates: list[str]


@dataclass(frozen=True)
class Scored(TuningEvent):
    """A candidate has reached the end of a rung."""

    name: str
    rung: int
    step: int
    value: float | None
    """The metric of its best validation so far; None if no loss was finite."""
    metric: str
    seconds: float
    """Training time of this rung."""


@dataclass(frozen=True)
class Failed(TuningEvent):
    """A candidate cannot continue."""

    name: str
    reason: str


@dataclass(frozen=True)
class RungFinished(TuningEvent):
    """The candidates that continue are known, the best first."""

    rung: int
    survivors: list[str]
    dropped: list[str]


@dataclass(frozen=True)
class Tuned(TuningEvent):
    """The end: results.json, results.tsv, best.toml and the picture are written."""

    result: TuningResult
