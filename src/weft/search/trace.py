"""What a search did, step by step, as data: for pictures, labs and tests. Made only on request.

A beam's trace is a tree: every step lists the branches that were looked at, with the slot of the parent each one
extends, and what became of it. A trace of a single path (greedy, sampling) lists the candidates of every step, which
of them a cut-off left in, and the one that was taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Branch(NamedTuple):
    """One extension that a beam looked at."""

    token: int
    parent: int
    """The slot, among those that went on from the step before, that this one extends; at the first step the slot
    that its group begins with: 0 where there is one group."""
    log_probability: float
    """log p of this token alone."""
    total: float
    """log p of all tokens up to this one."""
    score: float
    """What a hypothesis would be ranked by if it were finished here."""
    fate: str
    """"kept" (goes on), "finished" (ended and was set aside) or "cut"."""
    slot: int
    """The slot it goes on in; −1 where it does not go on."""


@dataclass(frozen=True)
class BeamTrace:
    """The tree of one sentence."""

    steps: list[list[Branch]]
    """For every step the branches looked at, best first."""
    winner: list[int]
    """The place in `steps[t]` of the winner's t-th token: the path traced back."""


class Draw(NamedTuple):
    """One step of a single path."""

    tokens: list[int]
    """The most likely candidates, best first; the drawn one is always among them."""
    probabilities: list[float]
    """Of each, as the model gave it (after the temperature, before any cut-off)."""
    kept: list[bool]
    """Whether the cut-offs left it in."""
    drawn: int
    """The place in `tokens` of the one that was taken."""
    mass: float
    """The probability that the cut-offs left in altogether."""
    left: int
    """How many tokens the cut-offs left in."""


@dataclass(frozen=True)
class PathTrace:
    """The steps of a search that follows a single path."""

    steps: list[Draw]


Trace = BeamTrace | PathTrace
