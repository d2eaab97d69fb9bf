"""A run that is about to be trained, and its training: the time limit, and the reasons at the head of its recipe."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from weft.files import save_text
from weft.pairs.race.events import TimeUsed
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.time_limit.budget import TimeLimit
from weft.pairs.time_limit.fitting import evaluation_items_within, fit_run
from weft.recipe import Recipe
from weft.recipe.toml import with_comments
from weft.runs.layout import RunFolder
from weft.runs.model_card import with_facts
from weft.training import train as core
from weft.training.events import Finished, Fitted, Started
from weft.training.train import Events, TrainingOptions


class PlannedRun(NamedTuple):
    """A run that is about to be trained."""

    recipe: Recipe
    folder: Path
    resume: bool = False
    limit: TimeLimit | None = None
    evaluates: bool = False
    """Whether it is evaluated on the test set at the end."""
    comments: tuple[str, ...] = ()
    """For the head of RUN/recipe.toml."""
    accept_new_data: bool = False
    candidates: tuple[CandidateRecipe, ...] = ()
    """Recipes that the time limit is to decide between and to be used up with; the first is ``recipe``."""

    def evaluation_items(self, plan: Fitted | TimeUsed | None) -> int | None:
        """How many items of the test set there is time to evaluate now; None: all.

        ``plan``: the last event that says how long an item takes.
        """
        if plan is None or self.limit is None:
            return None
        return evaluation_items_within(self.recipe, plan, self.limit.remaining())


def train_planned(
    run: PlannedRun, options: TrainingOptions, *, models: int = 0, step_seconds: float | None = None
) -> Events:
    """The events of a planned run without a race; ``models`` and ``step_seconds`` as in `fit_run`."""
    fit = None
    if run.limit is not None:
        fit = partial(fit_run, limit=run.limit, models=models, step_seconds=step_seconds)
    options = options._replace(resume=run.resume, fit=fit, accept_new_data=run.accept_new_data)
    events = annotated(core.train_with(run.recipe, run.folder, options), RunFolder(run.folder), list(run.comments))
    if options.model is None and options.workers.is_main:
        events = _with_exports(events, RunFolder(run.folder), run.recipe)
    yield from events


def annotated(events: Events, run: RunFolder, comments: list[str]) -> Events:
    """The same events; the recipe of the run folder, once it has been made, gets these comments."""
    text = ""
    with closing(events):
        for event in events:
            if isinstance(event, Started):
                text = run.recipe.read_text("utf-8") if comments else ""
            if isinstance(event, Fitted):
                comments = _fitted_comments(comments, event)
            if text and isinstance(event, Started | Fitted):
                save_text(run.recipe, with_comments(text, comments))
            yield event


def _with_exports(events: Events, run: RunFolder, recipe: Recipe) -> Events:
    """Pass the events on; at the end of training, the model card gets lines about exports."""
    with closing(events):
        for event in events:
            if isinstance(event, Finished) and run.card.is_file():
                from weft.interop.portability import EXPORTS_TO, NO_EXPORT_TO, export_lines

                lines = export_lines(recipe)
                save_text(run.card, with_facts(run.card.read_text("utf-8"), lines, (EXPORTS_TO, NO_EXPORT_TO)))
            yield event


def _fitted_comments(comments: list[str], event: Fitted) -> list[str]:
    """The comments of a recipe whose steps, and with them its schedule, were fitted to a time limit."""
    if event.steps == event.recipe_steps:
        return comments
    kept = [line for line in comments if not line.startswith(("steps: ", "learning rate: "))]
    reason = f"fitted to {event.minutes:g} min, with warmup and validations; {event.recipe_steps:,} without a limit"
    return [*kept, f"steps: up to {event.steps:,} ({reason})"]
