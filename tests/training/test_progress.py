"""Counters of a run: the best checkpoints, early stopping and the decays of a plateau."""

from __future__ import annotations

import math

import pytest

from weft.data.batching.batches import Position
from weft.recipe import TrainingSettings
from weft.training.progress import Progress


def validated(scores: list[float], settings: TrainingSettings) -> tuple[Progress, list[bool]]:
    """A run with a step before each validation, and whether each validation was the best so far."""
    progress, is_best = Progress(), []
    for step, score in enumerate(scores, 1):
        progress.advance(step, Position())
        is_best.append(progress.add_validation(score, settings))
    return progress, is_best


def test_the_best_checkpoints_are_ranked_the_earlier_one_first_among_equals() -> None:
    progress, is_best = validated([1.0, 3.0, 2.0, 3.0, math.nan], TrainingSettings(average=3))
    assert is_best == [True, True, False, False, False]
    assert progress.best_steps == [2, 4, 3]


def test_a_score_that_is_not_finite_is_never_among_the_best() -> None:
    progress, is_best = validated([-math.inf, math.nan, -5.0, -math.inf], TrainingSettings(average=4))
    assert is_best == [False, False, True, False] and progress.best_steps == [3]


def test_patience_counts_validations_without_improvement() -> None:
    settings = TrainingSettings(patience=2, steps=100)
    for scores, reason in (([1.0, 0.0], ""), ([1.0, 0.0, 0.0], "patience"), ([1.0, 0.0, 2.0, 0.0], "")):
        assert validated(scores, settings)[0].stop_reason(settings) == reason
    assert validated([1.0], TrainingSettings())[0].stop_reason(TrainingSettings(steps=1)) == "steps"


def test_only_a_plateau_decays_and_starts_counting_again() -> None:
    scores = [1.0, 0.0, 0.0, 0.0, 0.0]
    plateau = TrainingSettings(schedule="plateau", decay_patience=2, decay=0.5)
    progress, _ = validated(scores, plateau)
    assert progress.decays == 2 and progress.learning_rate_decay(plateau) == 0.25
    assert validated(scores, TrainingSettings(decay_patience=0))[0].decays == 0


@pytest.mark.parametrize(
    ("patience", "decays"), [(0, [0, 1, 2, 3, 4]), (1, [0, 1, 2, 3, 4]), (2, [0, 0, 1, 1, 2]), (3, [0, 0, 0, 1, 1])]
)
def test_the_learning_rate_decays_at_the_nth_validation_without_improvement(patience: int, decays: list[int]) -> None:
    plateau = TrainingSettings(schedule="plateau", decay_patience=patience)
    scores = [1.0, 0.0, 0.0, 0.0, 0.0]
    assert [validated(scores[:end], plateau)[0].decays for end in range(1, 6)] == decays
    assert validated([1.0, 2.0, 3.0], plateau)[0].decays == 0


class TestAMetricAtItsWorst:
    """The loss decides, so that the untrained model is not the best one, nor patience at its end before it starts."""

    @staticmethod
    def validated(scores: list[tuple[float, float]], **settings: int | str) -> tuple[Progress, list[bool]]:
        progress, is_best = Progress(), []
        for step, (score, loss) in enumerate(scores, 1):
            progress.advance(step, Position())
            chosen = TrainingSettings(steps=100, **settings)  # type: ignore[arg-type]
            is_best.append(progress.add_validation(score, chosen, {"loss": loss, "exact_match": abs(score)}))
        return progress, is_best

    @pytest.mark.parametrize("worst", [0.0, -100.0], ids=["nothing right", "everything wrong"])
    def test_the_loss_decides(self, worst: float) -> None:
        progress, is_best = self.validated([(worst, 5.0), (worst, 4.0), (worst, 4.5), (worst, 3.0)], average=2)
        assert is_best == [True, True, False, True] and progress.best_steps == [4, 2]

    def test_any_better_score_wins(self) -> None:
        progress, is_best = self.validated([(0.0, 3.0), (1.0, 9.0), (0.0, 1.0), (1.0, 2.0)], average=4)
        assert is_best == [True, True, False, False] and progress.best_steps == [2, 4, 3, 1]

    def test_an_error_rate_without_errors(self) -> None:
        progress, is_best = self.validated([(-0.0, 3.0), (-0.0, 2.0)], average=2)
        assert is_best == [True, False] and progress.best_steps == [1, 2]

    def test_patience_and_plateau(self) -> None:
        scores = [(0.0, 5.0), (0.0, 4.0), (0.0, 3.0)]
        settings = TrainingSettings(steps=100, patience=2)
        assert self.validated(scores, patience=2)[0].stop_reason(settings) == ""
        assert self.validated([*scores, (0.0, 3.5), (0.0, 3.1)], patience=2)[0].stop_reason(settings) == "patience"
        assert self.validated(scores, schedule="plateau", decay_patience=2)[0].decays == 1, "a decay is of the score"
