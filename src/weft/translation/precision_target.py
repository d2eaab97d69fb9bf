"""Which outputs to accept so that a given share of them is right: a threshold that holds for new data.

The outputs of the validation set are sorted by confidence. Accepting the k most confident of n is safe for a target
precision q if as few errors e as they have would be unlikely at a precision of q or less:

    P(E ≤ e | k, 1 − q) = Σ_{j ≤ e} C(k, j) (1 − q)^j q^(k − j) ≤ δ            Clopper and Pearson 1934

Values of k are tested in an order that does not depend on the outcomes: upward from a tenth of the outputs and upward
from half of them, but from no fewer than could pass without an error; each sequence with δ / 2, and up to its first
failure (fixed-sequence testing, Angelopoulos et al. 2021, *Learn then Test*). So with probability 1 − δ, over the
choice of the validation set, the precision on new data from the same source is at least q. The largest k that was found
safe gives the threshold; k / n is the coverage to expect.

The binomial distribution holds for outputs that are right or wrong independently. Those that come in groups, such as
the forms of a lemma, are not: the number of errors varies more, by the *design effect*

    D = (G / (G − 1)) Σ_g (E_g − ē n_g)² / (n ē (1 − ē)),  but at least 1            Kish 1965; a ratio estimate

with n_g outputs and E_g errors in each of G groups, and ē = Σ E_g / n. Then k outputs with e errors count as ⌊k / D⌋
with ⌈e / D⌉ (Rao and Scott 1992).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DELTA = 0.1
"""The probability that a threshold misses its target."""
STARTS = (0.1, 0.5)
"""The share of outputs at which each sequence of tests begins."""


class AcceptedOutputs(NamedTuple):
    """The outputs of the validation set that have at least some confidence."""

    confidence: float
    outputs: int
    right: int


class Threshold(NamedTuple):
    """Accept outputs of at least this confidence."""

    target: float
    """The precision that was asked for."""
    confidence: float
    coverage: float
    """The share of outputs that is accepted, as far as the validation set tells."""
    precision: float
    """The share of accepted outputs that is right on the validation set."""

    def describe(self) -> str:
        return (
            f"precision target {self.target:g}: outputs with a confidence of at least {self.confidence:.3f} are "
            f"accepted; expect {self.coverage:.0%} of them ({self.precision:.1%} of these are right on validation data)"
        )


def accepted_counts(confidences: Sequence[float], right: Sequence[bool], *, limit: int = 100) -> list[AcceptedOutputs]:
    """How many outputs have at least a confidence, and how many of these are right: at most ``limit`` + 1 values.

    The last counts all outputs.
    """
    ranked = sorted(zip(confidences, map(bool, right), strict=True), key=lambda item: -item[0])
    counts: list[AcceptedOutputs] = []
    number_right = 0
    step = max(1, len(ranked) // limit)
    for number, (confidence, is_right) in enumerate(ranked, 1):
        number_right += is_right
        is_last = number == len(ranked)
        if not is_last and ranked[number][0] == confidence:
            continue  # a threshold accepts all outputs of the same confidence
        if is_last or not counts or number - counts[-1].outputs >= step:
            counts.append(AcceptedOutputs(confidence, number, number_right))
    return counts


def design_effect(right: np.ndarray, groups: np.ndarray) -> float:
    """How much more the errors of groups vary than those of independent outputs; ``groups``: that of each output."""
    _, group_N, sizes_G = np.unique(groups, return_inverse=True, return_counts=True)
    rate = 1.0 - float(np.mean(right))
    if len(sizes_G) < 2 or len(sizes_G) == len(right) or not 0 < rate < 1:
        return 1.0
    errors_G = np.bincount(group_N, ~np.asarray(right, dtype=bool))
    variance = len(sizes_G) / (len(sizes_G) - 1) * float(((errors_G - rate * sizes_G) ** 2).sum())
    return max(1.0, variance / (len(right) * rate * (1 - rate)))


def find_threshold(
    counts: Sequence[AcceptedOutputs], target: float, *, effect: float = 1.0, delta: float = DELTA
) -> Threshold | None:
    """The threshold that accepts the most outputs at a target precision; None if none is safe.

    ``effect``: the design effect of their groups.
    """
    if not counts:
        return None
    total = counts[-1].outputs
    level = delta / len(STARTS)

    def tail(errors: int, outputs: int) -> float:
        return binomial_tail(math.ceil(errors / effect), math.floor(outputs / effect), 1 - target)

    enough = [item for item in counts if tail(0, item.outputs) <= level]
    safe: AcceptedOutputs | None = None
    for start in STARTS:
        for item in (item for item in enough if item.outputs >= start * total):
            if tail(item.outputs - item.right, item.outputs) > level:
                break
            safe = item if safe is None or item.outputs > safe.outputs else safe
    if safe is None:
        return None
    least = 0.0 if safe.outputs == total else safe.confidence  # all are accepted, also those less confident than here
    return Threshold(target, least, safe.outputs / total, safe.right / safe.outputs)


def binomial_tail(errors: int, outputs: int, rate: float) -> float:
    """P(E ≤ errors) of a binomial distribution."""
    if rate <= 0 or errors >= outputs:
        return 1.0
    if rate >= 1:
        return 0.0
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    logs = [
        math.lgamma(outputs + 1)
        - math.lgamma(count + 1)
        - math.lgamma(outputs - count + 1)
        + count * log_rate
        + (outputs - count) * log_rest
        for count in range(errors + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))
