"""Learning rates: a factor of the peak for every step (counted from 1).

Each has a linear warm-up of ``warmup`` steps first. `plateau` is constant between the decays that validations cause;
the loop multiplies those in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(step: int, *, warmup: int, steps: int) -> float:
    """1 after the warm-up."""
    return min(1.0, step / warmup) if warmup else 1.0


def inverse_sqrt(step: int, *, warmup: int, steps: int) -> float:
    """√(warmup / step) after the warm-up   Vaswani et al. 2017, 5.3 (there without a separate peak)."""
    warmup = max(warmup, 1)
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, steps: int) -> float:
    """(1 + cos π·progress) / 2, from the end of the warm-up to the last step   Loshchilov & Hutter 2017."""
    if step <= warmup:
        return step / warmup
    progress = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": constant,
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "plateau": constant,
}


def make_schedule(name: str, *, warmup: int, steps: int) -> Schedule:
    function = SCHEDULES[name]
    return lambda step: function(step, warmup=warmup, steps=steps)
