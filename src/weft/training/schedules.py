"""Learning rate schedules: a factor of the peak learning rate for every step (counted from 1).

Each begins with a linear warmup of ``warmup`` steps. `plateau` is constant between the decays that validations cause;
the training loop multiplies those in. To add a schedule: write the function, and add its line to
`weft.recipe.choices.SCHEDULES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.recipe import TrainingSettings
from weft.recipe.choices import SCHEDULES, resolve

Schedule = Callable[[int], float]


def constant(step: int, *, warmup: int, steps: int) -> float:
    """1 after the warmup."""
    return min(1.0, step / warmup) if warmup else 1.0


def inverse_sqrt(step: int, *, warmup: int, steps: int) -> float:
    """√(warmup / step) after the warmup   Vaswani et al. 2017, 5.3 (there without a separate peak)."""
    warmup = max(warmup, 1)
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, steps: int) -> float:
    """(1 + cos π·progress) / 2, from the end of the warmup to the last step   Loshchilov & Hutter 2017."""
    if step <= warmup:
        return step / warmup
    progress = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def make_schedule(settings: TrainingSettings) -> Schedule:
    """The schedule of a recipe."""
    function = resolve(SCHEDULES, settings.schedule)
    return lambda step: function(step, warmup=settings.warmup, steps=settings.steps)
