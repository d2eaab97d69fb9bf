"""Models of one recipe, and their ensemble, on the same validation items.

The validations of a training run translate a sample that depends on its seed; here runs of different seeds are compared
on one sample, as large. Where the loss is the metric, it is that of all validation pairs, as training has measured it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.errors import WeftError, warn
from weft.evaluation.summary import summarize
from weft.files import read_json
from weft.pairs.halving import better
from weft.recipe import Recipe
from weft.runs.layout import RunFolder
from weft.translation.load import load


def score_runs(folders: Sequence[Path], recipe: Recipe) -> float | None:
    """The metric of a run, or of the ensemble of several, on the validation set; None if there is no such number."""
    settings = recipe.training
    try:
        if settings.metric == "loss":
            return _loss(folders)
        run = load(*folders, device=settings.device)
        evaluation = recipe.evaluation.model_copy(update={"metrics": [settings.metric]})
        run.recipe = run.recipe.accepting_new_data().model_copy(update={"evaluation": evaluation})
        return summarize(run, split="valid", limit=settings.valid_sentences, examples=0).scores[0].score.value
    except WeftError as error:  # a model that diverged, for example
        if len(folders) > 1:
            warn(f"the models are not combined: {error}")
        return None


def _loss(folders: Sequence[Path]) -> float | None:
    if len(folders) > 1:
        return None
    validation = read_json(RunFolder(folders[0]).metrics).get("validation")
    return None if validation is None else float(validation["loss"])


def is_better(value: float | None, other: float | None, metric: str) -> bool:
    """Whether a value of the metric is better than another one; an unknown value is the worst."""
    if value is None or other is None:
        return value is not None
    return value > other if better(metric) == "higher" else value < other
