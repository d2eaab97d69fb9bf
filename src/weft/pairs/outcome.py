"""The outcome of training on pairs: test scores, sample outputs, forgetting of a former task, and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.data.preparation import has_corpus
from weft.errors import DataError, WeftError, warn
from weft.evaluation.calibrate import calibrate
from weft.evaluation.confidence_fitting import MIN_OUTPUTS
from weft.evaluation.forgetting import Forgetting, measure_forgetting
from weft.evaluation.marked_differences import Mark, in_brackets
from weft.evaluation.pairs import find_pairs
from weft.evaluation.summary import Summary, summarize
from weft.recipe import load_recipe
from weft.runs.layout import RunFolder
from weft.runtime.activity import activity
from weft.translation.load import load

MAX_EXAMPLE = 60
"""Characters of a source that is short enough for a command to be pasted."""


@dataclass(frozen=True)
class RunOutcome:
    """A finished run on its test set."""

    folder: Path
    summary: Summary
    is_language_model: bool = False
    forgetting: Forgetting | None = None
    """Loss in quality on the task of the run that it started from, if it did start from one."""
    forgetting_error: str | None = None
    """The reason why forgetting is unknown: the pairs of the former task are gone, or were never named."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, mark: Mark = in_brackets) -> list[str]:
        """The outcome line by line; ``mark``: shows a difference between output and reference."""
        former = [] if self.forgetting is None else ["", str(self.forgetting)]
        return [*self.summary.lines(mark), *former]

    def example(self) -> str | None:
        """A short source of the test set, to try the run with."""
        for example in (*self.summary.right, *self.summary.wrong):
            if len(example.source) <= MAX_EXAMPLE and example.source.isprintable() and "'" not in example.source:
                return example.source
        return None


def evaluate_run(folder: Path, *, device: str = "auto", limit: int | None = None) -> RunOutcome:
    """Evaluate a run that this process has just trained, on its test set or on ``limit`` items of it."""
    run = load(folder, device=device)
    run.recipe = run.recipe.accepting_new_data()
    summary = summarize(run, limit=limit)
    try:
        forgetting, error = measure_forgetting(folder, device=device), None
    except DataError as reason:
        forgetting, error = None, str(reason)
    return RunOutcome(folder, summary, run.source_role == "none", forgetting, error)


def calibrate_run(folder: Path, *, device: str = "auto", limit: int | None = None) -> bool:
    """Fit the confidence of a run that this process has just trained; False if its validation set is too small, or if
    the recipe asks for no validations.

    The run is complete without it: if it fails, there is a warning. ``limit``: validation pairs to translate, at most.
    """
    try:
        recipe = load_recipe(RunFolder(folder).recipe).accepting_new_data()
        if recipe.source_role == "none" or not has_corpus(recipe, "valid") or not recipe.training.validate_every:
            return False
        if len(find_pairs(recipe, None, split="valid").pairs) < MIN_OUTPUTS:
            return False
        with activity("calibrating"):
            run = load(folder, device=device, engine="torch")
            run.recipe = run.recipe.accepting_new_data()
            calibrate(run, limit=limit)
    except (WeftError, OSError) as error:
        warn(f"not calibrated: {error}")
        return False
    return True
