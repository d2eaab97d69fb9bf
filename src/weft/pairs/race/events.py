"""The events of a race, beside those of the winner's training; printed, each is one line with its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from weft.training.events import Event


@dataclass(frozen=True)
class RaceEvent(Event):
    """A decision about which model is trained; ``step`` is that of the candidate, or of the run in OUT."""


@dataclass(frozen=True)
class RaceSkipped(RaceEvent):
    """The recommended recipe is trained without a race."""

    reason: str

    def __str__(self) -> str:
        return f"no race: {self.reason}"


@dataclass(frozen=True)
class RaceStarted(RaceEvent):
    """The candidates are chosen."""

    candidates: dict[str, str]
    """Name and network of each; the first is the recommended one. Formats of export are named where they differ."""
    seconds: float
    """Time limit of each probe."""
    continued: bool = False
    """Whether an interrupted race goes on."""

    def __str__(self) -> str:
        verb = "race goes on" if self.continued else "race"
        networks = "; ".join(f"{name} ({network})" for name, network in self.candidates.items())
        return f"{verb}: {networks}; {self.seconds:.0f} s each"


@dataclass(frozen=True)
class ProbeScored(RaceEvent):
    """A validation of a candidate."""

    name: str
    steps: int
    """Total steps of its probe."""
    metric: str
    value: float
    best: bool

    def __str__(self) -> str:
        best = "  (its best)" if self.best else ""
        return f"race: {self.name}, step {self.step:,} of {self.steps:,}: {self.metric} {self.value:.2f}{best}"


@dataclass(frozen=True)
class Eliminated(RaceEvent):
    """A candidate is out of the race."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"race: {self.name} is out at step {self.step:,}: {self.reason}"


@dataclass(frozen=True)
class RaceWon(RaceEvent):
    """The winner, which is trained next, from its first step."""

    name: str
    metric: str
    values: dict[str, float | None]
    """The best validation of each candidate."""
    seconds: float
    """Duration of the race."""
    exports: tuple[str, ...] = ()
    """The formats to which it can be exported and the reasons for others, if another candidate was recommended."""

    def __str__(self) -> str:
        others = ", ".join(f"{name} {shown(value)}" for name, value in self.values.items() if name != self.name)
        over = f" over {others}" if others else ""
        return (
            f"race: {self.name} wins with {self.metric} {shown(self.values.get(self.name))}{over}, in "
            f"{self.seconds:.0f} s; it is trained again from its first step with the rest of the time"
            + "".join(f"; {line}" for line in self.exports)
        )


@dataclass(frozen=True)
class ModelScored(RaceEvent):
    """A model of the winner's recipe on the validation set."""

    seed: int
    metric: str
    value: float | None
    chosen: bool
    """Whether it is the best so far, and is in OUT."""
    seconds: float

    def __str__(self) -> str:
        verdict = "the best so far" if self.chosen else "not better"
        return f"model of seed {self.seed}: {self.metric} {shown(self.value)} ({verdict}), {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProbeKept(RaceEvent):
    """The winner had less time than its probe, and is worse: the probe is the run."""

    metric: str
    value: float | None
    """Score of the probe."""
    other: float | None

    def __str__(self) -> str:
        scores = f"{self.metric} {shown(self.value)}, after fewer steps {shown(self.other)}"
        return f"the machine has become slower; the model of the race is kept: {scores}"


@dataclass(frozen=True)
class FurtherModelStarted(RaceEvent):
    """A further model of the winner's recipe is trained, since a complete one fits into the time that is left."""

    seed: int
    seconds_left: float
    refits: bool = False
    """Whether it has more steps than the models before: the machine is faster than was measured."""

    def __str__(self) -> str:
        longer = ", with more steps" if self.refits else ""
        return f"{self.seconds_left / 60:.1f} min are left: training a further model, of seed {self.seed}{longer}"


@dataclass(frozen=True)
class EnsembleScored(RaceEvent):
    """All models together on the validation set."""

    metric: str
    value: float
    mean: float
    """Mean score of the single models."""
    members: tuple[str, ...]
    better: bool

    def __str__(self) -> str:
        verdict = "better" if self.better else "not better"
        scores = f"{self.metric} {self.value:.2f}, {verdict} than their mean of {self.mean:.2f}"
        return f"ensemble of {len(self.members)} models: {scores}"


@dataclass(frozen=True)
class Distilled(RaceEvent):
    """One model was trained on what the ensemble predicts."""

    metric: str
    value: float | None
    expected: float
    """Expected score of the best model on other items: half of its lead over the mean of all models counts as luck."""
    chosen: bool

    def __str__(self) -> str:
        verdict = "better than" if self.chosen else "not better than"
        expected = f"{self.expected:.2f} that the best model promises"
        return f"distilled into one model: {self.metric} {shown(self.value)}, {verdict} {expected}"


@dataclass(frozen=True)
class TimeUsed(RaceEvent):
    """The end of training: how much of the time was used, before the evaluation on the test set, and why not more."""

    minutes: float
    used_minutes: float
    reason: str
    test_items: int | None = None
    """The number of test items that time is reserved for; None: all."""
    item_seconds: float = 0.0
    """Estimated time per test item, from the validations of this run."""

    def __str__(self) -> str:
        return f"{self.used_minutes:.1f} of {self.minutes:g} min used before the evaluation; {self.reason}"


def shown(value: float | None) -> str:
    """A score in a line of text."""
    return "unknown" if value is None else f"{value:.2f}"
