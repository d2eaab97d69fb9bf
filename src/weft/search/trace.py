"""The steps of a search as data, for pictures, labs and tests. Made only on request.

The trace of a beam is a tree: every step lists the extensions that were considered, with the slot of the hypothesis
each one extends and its outcome. The trace of greedy search or sampling lists the candidates of every step, which of
them the sampling filters kept, and the one that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Branch(NamedTuple):
    """One extension that a beam considered."""

    token: int
    parent: int
    """The slot of the previous step that it extends; at the first step the first slot of its group: 0 where there is
    one group."""
    log_probability: float
    """log p of this token alone."""
    total: float
    """log p of all tokens up to this one."""
    score: float
    """The score of a hypothesis that were finished here."""
    outcome: str
    """"kept" (in the beam), "finished" (ended and was set aside) or "pruned"."""
    slot: int
    """Slot in the beam; −1 where it was not kept."""


@dataclass(frozen=True)
class BeamTrace:
    """The tree of one sentence."""

    steps: list[list[Branch]]
    """The extensions considered at every step, best first."""
    winner: list[int]
    """The index in `steps[t]` of the best hypothesis's t-th token."""


class Draw(NamedTuple):
    """One step of greedy search or sampling."""

    tokens: list[int]
    """The most likely candidates, best first; the chosen one is always among them."""
    probabilities: list[float]
    """Probability of each token, after the temperature and before any filter."""
    kept: list[bool]
    """Whether the filters kept it."""
    chosen: int
    """The index in `tokens` of the chosen one."""
    mass: float
    """The total probability of all tokens that the filters kept."""
    kept_count: int
    """The number of tokens that the filters kept."""


@dataclass(frozen=True)
class PathTrace:
    """The steps of greedy search or sampling."""

    steps: list[Draw]


Trace = BeamTrace | PathTrace
