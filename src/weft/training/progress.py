"""Where a training run stands; part of every checkpoint."""

from __future__ import annotations

import math

from pydantic import BaseModel

from weft.data.batching.batches import Position
from weft.recipe import TrainingSettings


class BestCheckpoint(BaseModel):
    """One of the best checkpoints."""

    step: int
    score: float
    """Its validation score; higher is better."""


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
    """For early stopping."""
    validations_since_decay: int = 0
    """Without improvement, since the learning rate was last decayed."""
    decays: int = 0
    skipped: int = 0
    seconds: float = 0.0
    last_validation: dict[str, float] | None = None

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
        """Why training ends now; empty if it goes on."""
        if settings.patience and self.validations_without_improvement >= settings.patience:
            return "patience"
        return "steps" if self.step >= settings.steps else ""

    def add_validation(self, score: float, settings: TrainingSettings) -> bool:
        """Take a validation score into account (NaN is the worst); whether it is the best so far."""
        score = -math.inf if math.isnan(score) else score
        is_best = not self.best or score > self.best[0].score
        self.validations_without_improvement = 0 if is_best else self.validations_without_improvement + 1
        self.validations_since_decay = 0 if is_best else self.validations_since_decay + 1
        if settings.schedule == "plateau" and self.validations_since_decay > settings.decay_patience:
            self.decays += 1
            self.validations_since_decay = 0
        candidates = [*self.best, BestCheckpoint(step=self.step, score=score)]
        ranked = sorted(candidates, key=lambda checkpoint: (-checkpoint.score, checkpoint.step))
        self.best = ranked[: settings.average]
        return is_best
