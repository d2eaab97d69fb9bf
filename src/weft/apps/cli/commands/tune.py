"""``weft tune``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import Changes, DeviceOrNone, Json, Like, Source, Target, check_device
from weft.apps.cli.terminal.signals import exit_code
from weft.apps.cli.terminal.status import duration
from weft.errors import plural
from weft.files import json_text
from weft.runtime.activity import Activity, activity

if TYPE_CHECKING:
    from weft.apps.tuning.events import Planned, TuningEvent
    from weft.apps.tuning.folder import TuningFolder
    from weft.recipe import Recipe


RecipeOrPairs = Annotated[
    str | None,
    typer.Argument(
        metavar="PAIRS|RECIPE",
        help="A file of pairs (TSV, CSV, JSON lines, Parquet; compressed or not), or a folder with train, valid and "
        "test; the name of a shipped recipe, or a TOML file.",
        show_default=False,
    ),
]


def command(
    recipe: RecipeOrPairs = None,
    source: Source = None,
    target: Target = None,
    like: Like = None,
    minutes: Annotated[float, typer.Option("--minutes", help="Time for everything.")] = 60.0,
    out: Annotated[Path | None, typer.Option("--out", help="The folder; by default runs/NAME-tuned.")] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel",
            min=1,
            help="Candidates that train in parallel; by default one per core, or two per GPU.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOrNone = None,
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Find better settings: train variants of a recipe, stop the worse ones early, and keep the best.

    Given pairs, weft first chooses a recipe for them, as weft train does. The candidates are the recipe itself and
    variants of it that each change one thing: dropout, learning rate, network family, width, vocabulary size or label
    smoothing. All train to a first step, the better half to twice that step, and so on; the last three train to the
    end. They are compared on the validation set; the test set is not read.

    The speed is measured first, so that everything fits into --minutes. Ctrl-C saves checkpoints; repeating the command
    continues, even after a crash. The result: a table, curves.svg, best.toml (the recipe of the best candidate), the
    trained models, and the ensemble of the best three.
    """
    from weft.apps.tuning.folder import TuningFolder
    from weft.apps.tuning.tune import check_request, default_folder, recipe_to_tune, with_absolute_paths
    from weft.pairs.source import find_pairs

    given = [*(changes or []), *([] if device is None else [f"training.device={device}"])]
    settings, recommendation = recipe_to_tune(recipe, find_pairs(recipe, source, target, like), given)
    for line in () if recommendation is None else recommendation.lines():
        typer.echo(line, err=True)
    check_request(settings, minutes)
    settings = with_absolute_paths(settings)
    folder = TuningFolder(out or default_folder(settings))
    folder.check(settings, minutes)
    check_device(device)
    try:
        _tune(settings, folder, minutes, parallel, as_json=as_json)
    except KeyboardInterrupt as interruption:
        typer.echo("weft: interrupted; repeat the command to continue", err=True)
        raise typer.Exit(exit_code(interruption)) from None


def _tune(settings: Recipe, folder: TuningFolder, minutes: float, parallel: int | None, *, as_json: bool) -> None:
    from rich.console import Console

    from weft.apps.tuning.events import Tuned
    from weft.apps.tuning.summary import next_commands, summary
    from weft.apps.tuning.tune import tune
    from weft.pictures.tuning_curves import terminal_curves

    events = tune(settings, folder.path, minutes=minutes, parallel=parallel)
    with closing(events):
        for event in Reporter()(events):
            if isinstance(event, Tuned):
                result = event.result
    if as_json:
        typer.echo(json_text(result.record()))
        return
    for line in summary(result):
        typer.echo(line)
    typer.echo("")
    Console(highlight=False).print(terminal_curves(result))
    typer.echo("")
    for line in next_commands(result, folder, settings):
        typer.echo(line)


class Reporter:
    """Reports events on stderr; while candidates train, an activity counts those that are done."""

    def __init__(self) -> None:
        self.doing = ExitStack()
        self.current: Activity | None = None
        self.is_last, self.left = False, 0
        self.rung_step = 0
        self.ended_early: list[str] = []
        """Candidates whose training has ended before its last step, since they no longer improved."""

    def __call__(self, events: Iterable[TuningEvent]) -> Iterator[TuningEvent]:
        """Show the events and pass them on."""
        with self.doing:
            for event in events:
                for line in self._lines(event):
                    typer.echo(line, err=True)
                yield event

    def _begin(self, what: str, unit: str = "", total: int | None = None) -> None:
        self.doing.close()
        self.current = self.doing.enter_context(activity(what, unit, total=total))

    def _lines(self, event: TuningEvent) -> Iterator[str]:
        from weft.apps.tuning import events as kinds
        from weft.apps.tuning.result import format_value

        if isinstance(event, kinds.TuningStarted):
            yield f"{plural(len(event.candidates), 'candidate')}, {event.parallel} in parallel; results in {event.path}"
            width = max(len(candidate.name) for candidate in event.candidates) + 2
            for candidate in event.candidates:
                yield f"  {candidate.name:<{width}}{candidate.change} ({candidate.reason})"
            self._begin("measuring the speed")
        elif isinstance(event, kinds.Planned):
            yield from _plan_lines(event)
        elif isinstance(event, kinds.RungStarted):
            count = plural(len(event.candidates), "candidate")
            yield f"rung {event.rung} of {event.rungs}: {count} to step {event.step:,}"
            self.rung_step = event.step
            if ended := [name for name in event.candidates if name in self.ended_early]:
                yield f"  not trained further (no further improvement, training.patience): {', '.join(ended)}"
            self._begin(f"training to step {event.step:,}", "candidates", len(event.candidates))
        elif isinstance(event, kinds.Scored):
            if self.current is not None:
                self.current.done += 1
            value, end = format_value(event.value, event.metric), ""
            if event.step < self.rung_step:
                self.ended_early.append(event.name)
                end = "; ended: no further improvement (training.patience)"
            scored = f"validation {event.metric} {value} at step {event.step:,}, {duration(event.seconds)}"
            yield f"  {event.name}: {scored}{end}"
        elif isinstance(event, kinds.Failed):
            yield f"  {event.name}: failed: {event.reason}"
        elif isinstance(event, kinds.RungFinished):
            yield f"  continued: {', '.join(event.survivors)}"
            if event.dropped:
                yield f"  stopped: {', '.join(event.dropped)}"
        self._compare_next(event)

    def _compare_next(self, event: TuningEvent) -> None:
        """Announce the comparison of the best after the last candidate of the last rung."""
        from weft.apps.tuning.events import RungStarted, Scored

        if isinstance(event, RungStarted):
            self.is_last, self.left = event.rung == event.rungs, len(event.candidates)
        elif isinstance(event, Scored):
            self.left -= 1
            if self.is_last and not self.left:
                self._begin("comparing the best on the whole validation set")


SHORT_SHARE = 0.75
"""The share of the time below which a plan says why it needs no more."""


def _plan_lines(event: Planned) -> Iterator[str]:
    plan = event.plan
    rungs = ", ".join(f"{step:,}" for step in plan.rungs)
    yield f"{plan.steps:,} steps, compared at step {rungs}; about {duration(plan.seconds)}"
    if event.left_out:
        yield f"left out, for lack of time: {', '.join(event.left_out)}"
    if plan.steps > event.recipe_steps - plan.validations:
        if plan.seconds < SHORT_SHARE * event.seconds_left:
            yield (
                f"these are all steps of the recipe: tuning ends before its {duration(event.seconds_left)} are over; "
                "a larger training.steps, in another --out, uses them"
            )
    else:
        share = plan.steps / event.recipe_steps
        yield (
            f"the time allows for {share:.0%} of the {event.recipe_steps:,} steps of the recipe; "
            "more --minutes, in another --out, compare candidates that are trained better"
        )
