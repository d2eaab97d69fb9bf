"""The batch of a run with few minutes: a smaller one, if that gives it more updates.

A network needs a number of updates whatever the size of the batches. If less than `ENOUGH_STEPS` of the recipe's steps
fit into the time, the batch is halved as long as an update then becomes faster by `FASTER`: where it is mostly launches
of kernels, or as long whatever is computed, a smaller batch gives no more updates, and only noise.

Words with hard attention, with equal processor time on held-out pairs: with 7 % of the steps a quarter of the batch had
62 and 67 % right where the recipe's had 4 and 47; with 23 % of them there was no difference (benchmarks/RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.pairs.time_limit.budget import SAFETY, VALIDATION_SHARE, Speed

ENOUGH_STEPS = 0.25
"""The fraction of the steps of a recipe with which its batch is kept."""
FASTER = 1.4
"""An update on half of the batch must be faster by this factor."""
SMALLEST_BATCH = 256
"""Tokens of a batch at least. Of sentences, batches of 128 were no better than of 512, and of 256 better than both."""
MOST_HALVINGS = 2


class BatchSpeed(NamedTuple):
    """The speed of updates with batches of a size."""

    tokens: int
    speed: Speed

    def steps_within(self, seconds: float) -> float:
        """How many updates there is time for, beside validations."""
        return (SAFETY * (1 - VALIDATION_SHARE) * seconds - self.speed.startup) / self.speed.step


def batch_for(recommended: BatchSpeed, measure: Callable[[int], Speed], *, seconds: float, steps: int) -> BatchSpeed:
    """The batch of a run of some seconds whose recipe has so many steps.

    ``measure``: the step and startup of updates on batches of so many tokens.
    """
    best = recommended
    for _ in range(MOST_HALVINGS):
        if best.steps_within(seconds) >= ENOUGH_STEPS * steps or best.tokens < 2 * SMALLEST_BATCH:
            break
        tokens = best.tokens // 2
        speed = measure(tokens)
        if FASTER * speed.step > best.speed.step:
            break
        best = BatchSpeed(tokens, best.speed._replace(step=speed.step, startup=speed.startup))
    return best
