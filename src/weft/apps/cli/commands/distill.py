"""``weft distill``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import AcceptNewData, Changes, Device, Search, check_runs
from weft.apps.cli.commands.train import outcome_lines
from weft.apps.cli.terminal.signals import exit_code
from weft.errors import plural

if TYPE_CHECKING:
    from weft.pairs.distillation.corpora import TargetsWritten
    from weft.training.train import Events

TeacherRuns = Annotated[
    list[Path],
    typer.Argument(metavar="TEACHER...", help="A run folder; several are an ensemble.", show_default=False),
]
DATA_HELP = (
    "The pairs: a file, a folder with train, valid and test, or a recipe; by default those of the first TEACHER."
)
Data = Annotated[str | None, typer.Option("--data", metavar="PAIRS|RECIPE", help=DATA_HELP)]
StudentName = Annotated[str, typer.Option("--student", help="same, small, tiny or shallow (one decoder layer).")]
StudentRecipe = Annotated[
    str | None,
    typer.Option("--recipe", help="The recipe of the student, in place of --student; a TOML file or a name."),
]
METHOD_HELP = (
    "sequence: the teacher's outputs; interpolation: the one of its n best nearest to the reference; word: its "
    "distributions."
)
References = Annotated[
    float | None,
    typer.Option(
        "--references", help="Share of reference pairs, 0 to 1; by default 0, with word 1.", show_default=False
    ),
]
NBest = Annotated[
    int | None,
    typer.Option("--n-best", min=1, help="Outputs per source; by default 1, with interpolation 5.", show_default=False),
]
TeacherWeight = Annotated[
    float | None,
    typer.Option(
        "--teacher-weight",
        help="Weight of the word-level loss, 0 to 1; by default 0, with word 0.5.",
        show_default=False,
    ),
]
Monolingual = Annotated[
    list[Path] | None,
    typer.Option("--monolingual", metavar="FILE", help="Further sources, one per line; may be repeated."),
]


def command(
    teachers: TeacherRuns,
    data: Data = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; by default runs/TEACHER-STUDENT.")] = None,
    student: StudentName = "same",
    recipe: StudentRecipe = None,
    changes: Changes = None,
    method: Annotated[str, typer.Option("--method", help=METHOD_HELP)] = "sequence",
    references: References = None,
    n_best: NBest = None,
    teacher_weight: TeacherWeight = None,
    search: Search = None,
    beam: Annotated[int | None, typer.Option("--beam", min=1, help="Beam size of the teacher.")] = None,
    monolingual: Monolingual = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Time limit for everything.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate/--no-evaluate", help="Evaluate on the test set at the end, if there is one.")
    ] = True,
    accept_new_data: AcceptNewData = False,
    device: Device = "auto",
) -> None:
    """Train a student on the outputs of a teacher (knowledge distillation), and print the run folder.

    The teacher's outputs are written to OUT.distillation, beside the run folder; then the student is trained on them.
    Repeating the command continues an interrupted one. With the teacher's own recipe (--student same) and monolingual
    sources this is self-training. See docs/distillation.md.
    """
    from weft.pairs.distillation.distill import distill

    check_runs(*teachers)
    settings = {name: value for name, value in (("kind", search), ("size", beam)) if value is not None}
    events = distill(
        teachers,
        data,
        out,
        student=student,
        recipe=recipe,
        changes=changes or [],
        method=method,
        references=references,
        n_best=n_best,
        teacher_weight=teacher_weight,
        search=settings,
        monolingual=monolingual or [],
        minutes=minutes,
        evaluate=evaluate,
        device=device,
        accept_new_data=accept_new_data,
    )
    try:
        typer.echo(_show(events))
    except KeyboardInterrupt as interruption:
        typer.echo("weft: interrupted; repeat the command to continue", err=True)
        raise typer.Exit(exit_code(interruption)) from None


def _show(events: Events) -> str:
    """Show the events as they come; returns the run folder."""
    from weft.apps.cli.terminal.progress import ProgressReporter
    from weft.pairs.distillation.corpora import TargetsWritten
    from weft.pairs.train import Evaluated
    from weft.training.events import Started

    folder = ""
    with closing(events):
        for event in ProgressReporter()(events):
            if isinstance(event, TargetsWritten):
                typer.echo(targets_line(event), err=True)
            elif isinstance(event, Started):
                folder = event.path
            elif isinstance(event, Evaluated):
                typer.echo("\n".join([*outcome_lines(event.outcome), ""]))
    return folder


def targets_line(event: TargetsWritten) -> str:
    """A file of the teacher's outputs in a line."""
    if not event.seconds:
        return f"{event.path}: {plural(event.pairs, 'pair')}, complete"
    left_out = f"; left out: {plural(event.left_out, 'source')} without a usable output" if event.left_out else ""
    return f"{event.path}: {plural(event.pairs, 'pair')} in {event.seconds:.0f} s{left_out}"
