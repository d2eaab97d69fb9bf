"""Training progress on stderr: a reader of the training loop's events.

In a terminal a bar, with fewer columns where it is narrow; in a file, a pipe or a dumb terminal a line now and then.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from weft.apps.cli.terminal.status import duration
from weft.errors import plural
from weft.runtime.activity import Activity, observing
from weft.translation.text_warnings import cut_off_outputs

if TYPE_CHECKING:
    from weft.pairs.time_limit.revision import Revised
    from weft.training.events import Averaged, Event, Fitted, Started, Step, Validation

FIRST_SECONDS, PLAIN_SECONDS, MAX_PLAIN_SECONDS = 2, 10, 60
"""Seconds until the first line if stderr is not a terminal, between lines, and between lines of a long run."""
WARMUP_STEPS, TIMED_STEPS, TIMED_SECONDS, WORTH_STATING = 5, 20, 3, 30
"""The expected time is measured after the first steps: over at least this many steps and this many seconds. It is not
stated for a run that takes less than the last of these, in seconds."""
REASONS = {"steps": "all steps done", "patience": "no further improvement", "time": "the time is up"}
"""Reasons why training has ended."""
NARROW = 80
"""Columns below which the bar and the speed are left out."""
FEW_STEPS = 0.25
"""The share of a recipe's steps that a time limit should leave; below it a warning is given."""


class ProgressReporter:
    """Shows events as they pass: a progress bar in a terminal, otherwise a line every few seconds."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or stderr_console()
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.activities: list[Activity] = []
        self.observation = ExitStack()
        """While there is a bar, this object observes the activities of the training loop."""
        self.loss = 0.0
        self.speed = 0.0
        self.start = self.reported = time.monotonic()
        self.first_step = self.steps = 0
        self.started: Started | None = None
        self.warmed_up = 0.0
        """When the first updates were done, which take longer than others."""

    def __call__(self, events: Iterable[Event]) -> Iterator[Event]:
        """Show the events and pass them on."""
        from weft.pairs.race.events import RaceEvent
        from weft.pairs.time_limit.revision import Revised
        from weft.training.events import Averaged, Diagnosis, Finished, Fitted, Skipped, Started, Step, Validation

        try:
            for event in events:
                if isinstance(event, Started):
                    self._started(event)
                elif isinstance(event, Fitted):
                    self._fitted(event)
                elif isinstance(event, Revised):
                    self._revised(event)
                elif isinstance(event, Step):
                    self._step(event)
                elif isinstance(event, Validation):
                    self._validation(event)
                elif isinstance(event, Averaged):
                    self._averaged(event)
                elif isinstance(event, RaceEvent):
                    self.console.print(str(event))
                elif isinstance(event, Diagnosis):
                    self.console.print(f"warning: {event.message}", style="yellow")
                elif isinstance(event, Skipped):
                    self.console.print(f"step {event.step:,}: loss not finite, update skipped", style="yellow")
                elif isinstance(event, Finished):
                    self._close()
                    reason = REASONS.get(event.reason, event.reason)
                    self.console.print(f"finished at step {event.step:,} in {event.seconds:.0f} s ({reason})")
                    if event.reason == "time":
                        slower = f"{self.steps:,} steps were planned, but the machine became slower"
                        self.console.print(f"{slower}; weft train RUN --resume continues up to them")
                    for drop_reason, count in event.dropped.items():
                        self.console.print(f"dropped: {count:,} {drop_reason}")
                yield event
        finally:
            self._close()

    def _started(self, event: Started) -> None:
        dropped = "; ".join(f"{count:,} {reason}" for reason, count in event.dropped.items())
        pairs = plural(event.pairs, "pair") if event.pairs else "streamed pairs"
        trained = "" if event.trained_parameters is None else f", {event.trained_parameters:,} of them trained"
        self.console.print(
            f"{pairs}{f' (dropped: {dropped})' if dropped else ''}; {event.parameters:,} parameters{trained}; "
            f"vocabulary {event.source_vocabulary:,} / {event.target_vocabulary:,}; {event.device}"
        )
        self.started = event
        self.steps, self.first_step = event.steps, event.step
        self.start = time.monotonic()
        self.reported = self.start - PLAIN_SECONDS + FIRST_SECONDS
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.bar = Progress(*self._columns(), console=self.console, transient=True)
            self.task = self.bar.add_task("training", total=event.steps, completed=event.step, loss="", speed="")
            self.bar.start()
            self.observation.enter_context(observing(self))

    def _expected_time(self, step: int, now: float) -> None:
        """State once, after some updates, how long the run will take, unless it is short."""
        done = step - self.first_step
        if done == WARMUP_STEPS:
            self.warmed_up = now
        if self.started is None or done < TIMED_STEPS + WARMUP_STEPS or now - self.warmed_up < TIMED_SECONDS:
            return
        started, self.started = self.started, None
        seconds = (now - self.warmed_up) / (done - WARMUP_STEPS) * (self.steps - self.first_step)
        if seconds < WORTH_STATING:
            return
        most = "at most about" if started.stops_early else "about"
        validations = f", and {plural(started.validations, 'validation')}" if started.validations else ""
        self.console.print(f"{most} {rounded(seconds)} of updates on {machine(started.device)}{validations}")

    def _revised(self, event: Revised) -> None:
        self.console.print(str(event))
        self.steps = event.steps
        if self.bar is not None:
            self.bar.update(self.task, total=event.steps)

    def _fitted(self, event: Fitted) -> None:
        started, self.started = self.started, None
        if started is None:
            return
        steps = f"{event.steps:,} of the recipe's {event.recipe_steps:,} steps"
        if event.steps > event.recipe_steps:
            steps = f"{event.steps:,} steps, {event.steps / event.recipe_steps:.1f} times as many as usual"
        steps = f"all {event.steps:,} steps of the recipe" if event.steps == event.recipe_steps else steps
        each = f"{1000 * event.step_seconds:,.0f} ms" if event.step_seconds < 1 else f"{event.step_seconds:.1f} s"
        validations = f", {plural(event.validations, 'validation')}" if event.validations else ""
        most = "at most about" if started.stops_early else "about"
        self.console.print(
            f"fits into {event.minutes:g} min: {steps} ({each} each on {machine(started.device)}){validations}; "
            f"{most} {rounded(event.seconds)}"
        )
        if event.batch_tokens is not None:
            self.console.print(f"batches of {event.batch_tokens:,} tokens, smaller than recommended: more updates fit")
        if event.steps < FEW_STEPS * event.recipe_steps:
            whole = rounded(event.step_seconds * event.recipe_steps)
            self.console.print(
                f"warning: few of the recipe's steps; all of them take about {whole}. More minutes give a better "
                "model; what else helps: docs/training.md"
            )

    def _columns(self) -> list[ProgressColumn]:
        narrow = self.console.width < NARROW
        columns: list[ProgressColumn] = [TextColumn("{task.description}"), MofNCompleteColumn()]
        columns += [] if narrow else [BarColumn()]
        columns.append(TextColumn("loss {task.fields[loss]}" + ("" if narrow else "{task.fields[speed]}")))
        return [*columns, TimeRemainingColumn(compact=narrow)]

    def begin(self, activity: Activity) -> None:
        """The training loop does something other than a step: the bar says what."""
        if self.bar is not None:
            self.activities.append(activity)
            self.bar.update(self.task, description=self.activities[0].what)

    def end(self, activity: Activity) -> None:
        self.activities = [other for other in self.activities if other is not activity]
        if self.bar is not None:
            self.bar.update(self.task, description=self.activities[0].what if self.activities else "training")

    def _step(self, event: Step) -> None:
        speed = event.target_tokens / max(event.seconds, 1e-9)
        self.loss = event.loss if not self.loss else 0.95 * self.loss + 0.05 * event.loss
        self.speed = speed if not self.speed else 0.95 * self.speed + 0.05 * speed
        now = time.monotonic()
        self._expected_time(event.step, now)
        if self.bar is not None:
            shown = {"loss": short(self.loss), "speed": f"  {self.speed:,.0f} tokens/s"}
            self.bar.update(self.task, completed=event.step, **shown)  # type: ignore[arg-type]
            return
        if now - self.reported > min(max(PLAIN_SECONDS, (now - self.start) / 60), MAX_PLAIN_SECONDS):
            self.reported = now
            left = (now - self.start) / max(event.step - self.first_step, 1) * (self.steps - event.step)
            self.console.print(
                f"step {event.step:,}/{self.steps:,}: loss {short(self.loss)}, {self.speed:,.0f} target tokens/s, "
                f"{duration(left)} left"
            )

    def _validation(self, event: Validation) -> None:
        best = "  (best)" if event.is_best else ""
        self.console.print(f"step {event.step:,}: {_scores(event)}{best}")
        if cut_off := cut_off_outputs(event.ended_by_length, event.outputs):
            self.console.print(f"step {event.step:,}: {cut_off}")

    def _averaged(self, event: Averaged) -> None:
        steps = ", ".join(map(str, event.steps))
        choice = "better than the best of them" if event.is_best else "worse than the best of them, which is kept"
        self.console.print(f"mean of steps {steps}: {_scores(event)}  ({choice})")

    def _close(self) -> None:
        self.observation.close()
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _scores(event: Validation | Averaged) -> str:
    scores = f"validation {_numbers(event.loss, event.perplexity, event.metrics)}"
    if not (structural := dict(event.structural)):
        return scores
    numbers = _numbers(structural.pop("loss"), structural.pop("perplexity", None), structural)
    return f"{scores}; structural holdout: {numbers}"


def _numbers(loss: float, perplexity: float | None, metrics: dict[str, float]) -> str:
    first = f"loss {short(loss)}" if perplexity is None else f"perplexity {short(perplexity)}"
    return first + "".join(f", {name} {value:.2f}" for name, value in metrics.items())


def machine(device: str) -> str:
    """The hardware of a run: ``2 CPU cores``, or the name of a GPU."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    cores = torch.get_num_threads()
    return f"{cores} CPU {'core' if cores == 1 else 'cores'}"


def rounded(seconds: float) -> str:
    """An expected duration, rounded to its likely accuracy: ``40 s``, ``4 min``, ``2 h 10 min``."""
    if seconds < 100:
        return f"{max(round(seconds, -1), 10):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else duration(600 * round(seconds / 600))


def stderr_console() -> Console:
    """A console for plain text on stderr; lines are wrapped at words in a terminal, and nowhere else."""
    soft_wrap = sys.stderr is None or not sys.stderr.isatty()
    return Console(stderr=True, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False)


def short(value: float) -> str:
    """A number that stays short: ``1.234``, ``12,345``, ``1.2e+09``."""
    if abs(value) < 1_000 or not math.isfinite(value):
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) < 1_000_000 else f"{value:.1e}"
