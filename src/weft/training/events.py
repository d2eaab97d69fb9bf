"""What happens while a model trains. The loop yields these; the terminal, the log and the labs read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something happened at a step."""

    step: int

    def record(self) -> dict[str, Any]:
        """A line for log.jsonl."""
        return {"event": type(self).__name__.lower(), **self.__dict__}


@dataclass(frozen=True)
class Prepared(Event):
    """All is read and built; training begins, or goes on."""

    pairs: int
    """0: not known, they are read as they are trained on."""
    left_out: dict[str, int]
    """Rows that are not trained on, by reason."""
    source_vocabulary: int
    target_vocabulary: int
    parameters: int
    device: str
    steps: int
    path: str


@dataclass(frozen=True)
class Step(Event):
    """One update."""

    loss: float
    """Negative log-likelihood of a target token, without smoothing."""
    rate: float
    """Learning rate."""
    norm: float
    """Of the gradient, before clipping."""
    source_tokens: int
    target_tokens: int
    seconds: float
    """How long the update took."""
    waited: float
    """How much of it went by before there was a batch."""
    epoch: int


@dataclass(frozen=True)
class Skipped(Event):
    """An update that was not made, because the loss or the gradient was not finite."""

    in_a_row: int


@dataclass(frozen=True)
class Validation(Event):
    """How well the model does on what it does not train on."""

    loss: float
    perplexity: float
    metrics: dict[str, float] = field(default_factory=dict)
    best: bool = False
    """Whether this is the best so far."""


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint from which the run can be resumed."""

    path: str


@dataclass(frozen=True)
class Finished(Event):
    """The end."""

    reason: str
    """"steps" or "patience"."""
    seconds: float
    """Training time, over all resumptions."""
    best_step: int
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows of a stream that were not trained on, by reason; rows read twice count twice."""
