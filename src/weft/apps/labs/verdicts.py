"""Verdicts: whether a claim held, by comparing 95 % intervals with what the claim predicts.

A check compares one effect with a threshold, the smallest effect that counts. It held if the whole interval is on the
predicted side, did not hold if the whole interval is on the other side, and is inconclusive otherwise. A claim held if
all its checks held; it did not hold if one of them did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weft.evaluation.statistics import Estimate

Outcome = Literal["held", "did not hold", "inconclusive"]
HELD: Outcome = "held"
NOT_HELD: Outcome = "did not hold"
INCONCLUSIVE: Outcome = "inconclusive"
OUTCOMES: tuple[Outcome, ...] = (HELD, NOT_HELD, INCONCLUSIVE)


@dataclass(frozen=True)
class Check:
    """One effect, and what the claim predicts of it."""

    what: str
    """A noun phrase with its unit: ``gain of attention at 40 words, in points``."""
    effect: Estimate
    rule: str
    """The prediction: ``above 5``."""
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.what}: {self.effect.text()}, predicted {self.rule}: {self.outcome}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a lab."""

    outcome: Outcome
    sentence: str
    """The measurements in one sentence, true whatever the outcome."""
    checks: tuple[Check, ...]
    """The first one is the effect of the headline."""

    @property
    def effect(self) -> Estimate:
        return self.checks[0].effect


def above(what: str, effect: Estimate, threshold: float = 0.0) -> Check:
    """The effect is predicted to be larger than the threshold."""
    outcome = _outcome(effect.low > threshold, effect.high <= threshold)
    return Check(what, effect, f"above {_limit(threshold)}", outcome)


def below(what: str, effect: Estimate, threshold: float = 0.0) -> Check:
    """The effect is predicted to be smaller than the threshold."""
    outcome = _outcome(effect.high < threshold, effect.low >= threshold)
    return Check(what, effect, f"below {_limit(threshold)}", outcome)


def within(what: str, effect: Estimate, low: float, high: float) -> Check:
    """The effect is predicted to be between two limits."""
    inside = low <= effect.low and effect.high <= high
    outcome = _outcome(inside, effect.high < low or effect.low > high)
    return Check(what, effect, f"between {_limit(low)} and {_limit(high)}", outcome)


def always(what: str, violations: int, cases: int) -> Check:
    """Something that is proved, or counted, has no exception; ``what`` names the exceptions."""
    outcome = INCONCLUSIVE if not cases else NOT_HELD if violations else HELD
    return Check(what, Estimate.exact(violations), f"0 of {cases:,}", outcome)


def judge(checks: Sequence[Check], sentence: str) -> Verdict:
    """The verdict of several checks: all of them must hold."""
    outcomes = {check.outcome for check in checks}
    outcome = NOT_HELD if NOT_HELD in outcomes else HELD if outcomes == {HELD} else INCONCLUSIVE
    return Verdict(outcome, sentence, tuple(checks))


def _outcome(predicted: bool, opposite: bool) -> Outcome:
    return HELD if predicted else NOT_HELD if opposite else INCONCLUSIVE


def _limit(value: float) -> str:
    mantissa, _, exponent = f"{value:,g}".partition("e")
    return (f"{mantissa}e{int(exponent)}" if exponent else mantissa).replace("-", "−")
