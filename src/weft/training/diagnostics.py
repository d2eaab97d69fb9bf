"""Diagnosis of training runs from their curves: what is wrong, and what to do about it.

Each rule is a function of the curves and returns a message or None. The rules prefer being right to being early: a
healthy run, noise included, gives no message. `Diagnostics` watches the events of a run and reports each kind of
problem once. Too few pairs are mentioned only together with their effect (`weft data recommend` warns before training).

    does not learn   the training loss is no lower than the entropy of the target tokens; or no output is ever right
    diverges         the training loss has risen far above its minimum
    overfits         the validation loss rises while the training loss falls
    too short        a time limit has cut the run off while it was still getting better
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

import numpy as np

from weft.data.batching.batches import BatchSource, StoredCorpus
from weft.errors import plural
from weft.recipe import Recipe
from weft.recipe.data import as_list
from weft.training.events import Diagnosis, Event, Finished, Fitted, Skipped, Started, Step, Validation

FEW_PAIRS = 500
BLOCKS = 100
"""The training loss is averaged over blocks of updates; a run is divided into this many."""
MIN_BLOCK = 10
"""Updates in a block, at least."""
MIN_STEPS = 100
"""The number of steps before which nothing is reported about learning."""
LEARNING_SHARE = 0.2
"""The fraction of a run after which the loss must be below that of guessing by token frequency."""
GUESSING = 0.98
"""The loss must be below this fraction of the loss of guessing."""
DIVERGENCE = 0.5
"""The largest rise of the loss above its minimum: in nats, and as a fraction of the minimum."""
DIVERGENCE_BLOCKS = 3
OVERFITTING = 1.15
"""The largest ratio of the validation loss to its minimum, and the inverse for the training loss."""
OVERFITTING_VALIDATIONS = 3
"""The number of consecutive validations that must show it."""
WORSE = 0.05
"""The fraction by which the metric must be worse than its best."""
IMPROVEMENT = 0.02
"""A run is too short if its last third improved the score by this fraction."""
LEAST_IMPROVEMENT = {"loss": 0.02, "metric": 0.5}
"""The smallest such improvement, in nats or in percent."""
SAMPLED_TOKENS = 1_000_000


class Loss(NamedTuple):
    """The mean training loss of a block of updates."""

    step: int
    """The last update of the block."""
    value: float


@dataclass
class Curves:
    """The course of a run so far."""

    steps: int
    """Steps of the whole run."""
    losses: list[Loss] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    pairs: int = 0
    """Number of training pairs; 0: not known."""
    delivers_last: bool = False
    """Whether the weights of the last step are delivered (training.choose)."""

    @property
    def more_pairs(self) -> str:
        """Advice to collect more pairs, with their number."""
        if not self.pairs:
            return "more pairs"
        few = " are very few" if 1 < self.pairs < FEW_PAIRS else " is very little" if self.pairs == 1 else ""
        return f"more pairs ({plural(self.pairs, 'pair')}{few})"

    @property
    def metric(self) -> str | None:
        """The metric of the validations; None: the loss."""
        return next(iter(self.validations[-1].metrics), None) if self.validations else None

    def scores(self) -> list[float]:
        """The number by which each validation is judged."""
        name = self.metric
        return [event.loss if name is None else event.metrics[name] for event in self.validations]

    def training_loss(self, step: int) -> float | None:
        """The training loss around a step."""
        return next((loss.value for loss in self.losses if loss.step >= step), None)


def does_not_learn(curves: Curves, entropy: float | None, warmup: int) -> str | None:
    """The diagnosis that the loss is still that of guessing by frequency after a fifth of the run (and its warmup)."""
    if entropy is None or not curves.losses:
        return None
    step, loss = curves.losses[-1].step, min(loss.value for loss in curves.losses)
    if step < max(LEARNING_SHARE * curves.steps, 1.5 * warmup, MIN_STEPS) or loss < GUESSING * entropy:
        return None
    return (
        f"does not learn: after {step:,} of {curves.steps:,} steps the training loss has not been below {loss:.2f}; "
        f"guessing tokens by their frequency has {entropy:.2f}; check that each source belongs to its target, or lower "
        "training.learning_rate"
    )


def nothing_right(curves: Curves) -> str | None:
    """The diagnosis, at the end of a run, that its metric never left its worst value."""
    scores, name = set(curves.scores()), curves.metric
    if name is None or len(curves.validations) < 2 or curves.validations[-1].step < MIN_STEPS:
        return None
    is_error_rate = name.endswith("error_rate")
    if scores != ({100.0} if is_error_rate else {0.0}):
        return None
    return (
        f"does not learn: no validation has found an output that is right ({name} {scores.pop():.2f}); train longer, "
        f"with {curves.more_pairs}, or with other settings (weft data recommend PAIRS)"
    )


def diverges(curves: Curves) -> str | None:
    """The training loss is far above its minimum, in three blocks in a row."""
    if len(curves.losses) < 5 or curves.losses[-1].step < MIN_STEPS:
        return None
    best = min(curves.losses, key=lambda loss: loss.value)
    limit = best.value + max(DIVERGENCE, DIVERGENCE * best.value)
    if any(loss.value <= limit for loss in curves.losses[-DIVERGENCE_BLOCKS:]):
        return None
    last = curves.losses[-1]
    return (
        f"diverges: the training loss was {best.value:.2f} at step {best.step:,} and is {last.value:.2f} at step "
        f"{last.step:,}; lower training.learning_rate, or raise training.warmup"
    )


def overfits(curves: Curves) -> str | None:
    """The validation loss has risen for some validations, the metric (if any) is worse, and the training loss fell."""
    validations = curves.validations
    best = min(range(len(validations)), key=lambda index: validations[index].loss, default=0)
    recent = validations[-OVERFITTING_VALIDATIONS:]
    if len(validations) - best <= OVERFITTING_VALIDATIONS or not _is_worse(curves):
        return None
    lowest, last = validations[best], validations[-1]
    then, now = curves.training_loss(lowest.step), curves.losses[-1].value if curves.losses else None
    has_risen = all(event.loss > OVERFITTING * lowest.loss for event in recent)
    if not has_risen or then is None or now is None or now > then / OVERFITTING:
        return None
    kept = (
        "the last checkpoint is delivered (training.choose)" if curves.delivers_last else "the best checkpoint is kept"
    )
    return (
        f"overfits: from step {lowest.step:,} to {last.step:,} the validation loss has risen from {lowest.loss:.2f} to "
        f"{last.loss:.2f}, while the training loss fell from {then:.2f} to {now:.2f}; {kept}; "
        f"what helps most are {curves.more_pairs}, then a higher model.dropout or a smaller model"
    )


def _is_worse(curves: Curves) -> bool:
    """Whether the metric of the last validations is clearly worse than its best; true without a metric.

    False if the best is not known: that of a resumed run may be from before.
    """
    if curves.metric is None:
        return True
    scores = curves.scores()
    bests = [score for score, event in zip(scores, curves.validations, strict=True) if event.is_best]
    if not bests:
        return False
    best = bests[-1]
    return all(abs(score - best) > WORSE * abs(best) for score in scores[-OVERFITTING_VALIDATIONS:])


def few_steps(curves: Curves, recipe_steps: int) -> str | None:
    """The diagnosis of a run that a time limit has cut short, with too few validations to tell whether it improved."""
    if len(curves.validations) >= 3 or curves.steps > recipe_steps / 2:
        return None
    return f"only {curves.steps:,} of {recipe_steps:,} steps fit into the time; more minutes would help"


def too_short(curves: Curves) -> str | None:
    """The diagnosis of a run that a time limit has cut short while it was still improving in its last third."""
    scores, validations = curves.scores(), curves.validations
    bests = [index for index, event in enumerate(validations) if event.is_best]
    earlier = [index for index in bests if index < len(validations) * 2 / 3]
    if len(validations) < 3 or not earlier or bests[-1] < len(validations) - 2 or bests[-1] == earlier[-1]:
        return None
    before, after = earlier[-1], bests[-1]
    name, least = curves.metric, LEAST_IMPROVEMENT["metric"]
    if name is None or scores[before] == scores[after]:  # the loss has decided, maybe for a metric at its worst
        name, least = "validation loss", LEAST_IMPROVEMENT["loss"]
        scores = [event.loss for event in validations]
    improvement = abs(scores[after] - scores[before])
    if improvement < max(IMPROVEMENT * max(abs(scores[before]), abs(scores[after])), least):
        return None
    return (
        f"ended while still getting better: {name} {scores[before]:.2f} at step {validations[before].step:,}, "
        f"{scores[after]:.2f} at step {validations[after].step:,}; more minutes would help"
    )


def token_entropy(tokens: np.ndarray) -> float:
    """−Σ p log p over the token frequencies, in nats: the loss of a model that knows these alone."""
    counts = np.unique(tokens, return_counts=True)[1].astype(np.float64)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def target_entropy(data: BatchSource) -> float | None:
    """The entropy of the target tokens of a corpus, estimated from a sample; None for a stream."""
    if not isinstance(data, StoredCorpus):
        return None
    values = data.pairs.target.values
    return token_entropy(np.asarray(values[:: max(1, len(values) // SAMPLED_TOKENS)])) if len(values) else None


class Diagnostics:
    """Watches the events of a run."""

    def __init__(self, recipe: Recipe, data: BatchSource) -> None:
        settings = recipe.training
        is_likelihood = settings.loss == "cross_entropy" and settings.forcing == "teacher"
        self.entropy = target_entropy(data) if is_likelihood else None
        self.warmup = settings.warmup
        corpora = as_list(recipe.data.train)
        self.has_stages = any(getattr(corpus, "first_step", 1) > 1 or _ends(corpus) for corpus in corpora)
        self.curves = Curves(settings.steps, delivers_last=settings.choose == "last")
        self.block: list[float] = []
        self.told: set[str] = set()
        self.recipe_steps = settings.steps
        """Steps of the recipe, before a time limit has reduced them."""

    def watch(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Pass the events on, each followed by its diagnoses; `Finished` stays last."""
        with closing(events):
            for event in events:
                findings = list(self.add(event))
                yield from [*findings, event] if isinstance(event, Finished) else [event, *findings]

    def add(self, event: Event) -> Iterator[Diagnosis]:
        """The diagnoses that an event leads to; each kind is reported once."""
        for kind, message in self._findings(event):
            if message is not None and kind not in self.told:
                self.told.add(kind)
                yield Diagnosis(event.step, kind, message)

    def _findings(self, event: Event) -> Sequence[tuple[str, str | None]]:
        curves = self.curves
        if isinstance(event, Started):
            curves.pairs = event.pairs
        elif isinstance(event, Fitted):
            self.recipe_steps = event.recipe_steps
        elif isinstance(event, Step | Skipped):
            return self._block_findings() if self._add_loss(event) else []
        elif isinstance(event, Validation):
            curves.validations.append(event)
            return [("overfits", overfits(curves))]
        elif isinstance(event, Finished):
            nothing = nothing_right(curves)
            is_cut = event.reason == "time" or (event.reason == "steps" and curves.steps < self.recipe_steps)
            if not is_cut or nothing is not None:
                return [("does not learn", nothing)]
            return [("too short", too_short(curves) or few_steps(curves, self.recipe_steps))]
        return []

    def _add_loss(self, event: Step | Skipped) -> bool:
        """Add the loss of an update; whether it was the last of a block."""
        if isinstance(event, Step):
            self.block.append(event.loss)
        if len(self.block) < max(self.curves.steps // BLOCKS, MIN_BLOCK):
            return False
        self.curves.losses.append(Loss(event.step, fmean(self.block)))
        self.block.clear()
        return True

    def _block_findings(self) -> list[tuple[str, str | None]]:
        findings: list[tuple[str, str | None]] = []
        if not self.has_stages:
            findings.append(("diverges", diverges(self.curves)))
        return [*findings, ("does not learn", does_not_learn(self.curves, self.entropy, self.warmup))]


def _ends(corpus: object) -> bool:
    return getattr(corpus, "last_step", None) is not None
