"""A job of a tuning run, and the protocol of what runs jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

Outcome = dict[str, Any]
"""The result of a job, as in its file; of a job that failed, ``failed`` is the reason."""


@dataclass(frozen=True)
class TuningJob:
    """Work for a separate process."""

    action: str
    """measure, train or compare."""
    name: str
    """The candidate's name."""
    result: str
    """The file for the result."""
    arguments: dict[str, Any]

    @classmethod
    def from_json(cls, text: str) -> TuningJob:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Runner(Protocol):
    """Runs jobs, several in parallel."""

    @property
    def parallel(self) -> int:
        """The number of jobs that run in parallel."""
        ...

    def run(self, jobs: Sequence[TuningJob]) -> Iterator[tuple[TuningJob, Outcome]]:
        """The jobs with their outcomes, in the order in which they end."""
        ...
