"""The progress of a training run; part of every checkpoint."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ValidationError

from weft.data.batching.batches import Position
from weft.errors import CheckpointError
from weft.recipe import TrainingSettings
from weft.runs.weights import WeightsOrigin

ALL_WRONG = -100.0
"""The score of an error rate (item_error_rate, …) of 100 %: scores are such that higher is better."""


class BestCheckpoint(BaseModel):
    """One of the best checkpoints."""

    step: int
    score: float
    """Validation score; higher is better."""
    validation: dict[str, float] | None = None
    """Loss, perplexity and metric."""

    @property
    def rank(self) -> tuple[float, float]:
        """The sort key of checkpoints: the best comes first."""
        is_zero = self.score == 0.0 and math.copysign(1.0, self.score) > 0  # -0.0: an error rate without errors
        is_worst = is_zero or self.score == ALL_WRONG
        return -self.score, (self.validation or {}).get("loss", 0.0) if is_worst else 0.0


class Progress(BaseModel):
    """Counters of a run, and its position in the data."""

    step: int = 0
    stage: int = 0
    epoch: int = 0
    pool: int = 0
    batch: int = 0
    best: list[BestCheckpoint] = []
    """The best checkpoints, best first."""
    validations_without_improvement: int = 0
    """Validations without improvement, for early stopping."""
    validations_since_decay: int = 0
    """Validations without improvement since the last decay of the learning rate."""
    decays: int = 0
    skipped: int = 0
    seconds: float = 0.0
    last_validation: dict[str, float] | None = None
    validated_step: int | None = None
    """The step of the last validation; 0 before the first, None if it is not known."""
    validation_sample: tuple[int, int] | None = None
    """The number of sentences that the last metrics were computed on, and that of the validation set."""

    @classmethod
    def restored(cls, state: dict[str, Any], *, where: str) -> Progress:
        """That of a checkpoint."""
        try:
            progress = cls.model_validate(state)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise CheckpointError(f"{where}/state.json: damaged at {field!r}") from None
        if progress.validated_step is None:  # an older checkpoint, without this record
            progress.validated_step = progress.step
        return progress

    @property
    def position(self) -> Position:
        return Position(self.stage, self.epoch, self.pool, self.batch)

    def advance(self, step: int, position: Position) -> None:
        """A step was made, up to this position in the data."""
        self.step = step
        self.stage, self.epoch, self.pool, self.batch = position

    @property
    def best_steps(self) -> list[int]:
        return [checkpoint.step for checkpoint in self.best]

    def learning_rate_decay(self, settings: TrainingSettings) -> float:
        """The factor by which plateaus have lowered the learning rate so far."""
        return settings.decay**self.decays

    def stop_reason(self, settings: TrainingSettings) -> str:
        """The reason why training ends now; empty if it continues."""
        if settings.patience and self.validations_without_improvement >= settings.patience:
            return "patience"
        return "steps" if self.step >= settings.steps else ""

    def origin(self, settings: TrainingSettings) -> WeightsOrigin:
        """The origin of the weights if training ended now: the best or, as long as there are none, the last.

        With training.choose = "last", always the last; their validation is known if there was one at this step.
        """
        validation = self.last_validation
        if settings.choose == "last":
            validation = validation if self.validated_step == self.step else None
        elif self.best:
            return WeightsOrigin("best", (self.best[0].step,), self.best[0].validation)
        return WeightsOrigin("last" if self.step else "initial", (self.step,), validation)

    def add_validation(
        self, score: float, settings: TrainingSettings, validation: dict[str, float] | None = None
    ) -> bool:
        """Take a validation score into account; whether it is the best so far. One that is not finite never is.

        As long as a metric is at its worst value it tells nothing, and the loss decides.
        """
        added = BestCheckpoint(step=self.step, score=score, validation=validation)
        is_best = math.isfinite(score) and (not self.best or added.rank < self.best[0].rank)
        is_better = is_best and (not self.best or score > self.best[0].score)
        self.last_validation = validation
        self.validated_step = self.step
        self.validations_without_improvement = 0 if is_best else self.validations_without_improvement + 1
        self.validations_since_decay = 0 if is_better else self.validations_since_decay + 1
        if settings.schedule == "plateau" and self.validations_since_decay >= max(settings.decay_patience, 1):
            self.decays += 1
            self.validations_since_decay = 0
        if math.isfinite(score):
            ranked = sorted([*self.best, added], key=lambda checkpoint: (checkpoint.rank, checkpoint.step))
            self.best = ranked[: settings.average]
        return is_best
