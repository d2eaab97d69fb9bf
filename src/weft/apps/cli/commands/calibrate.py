"""``weft calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import (
    AcceptNewData,
    Changes,
    Device,
    Json,
    PairsFile,
    Run,
    RunArguments,
    Search,
    SourceFile,
    TargetFile,
    read_given,
    search_changes,
)
from weft.files import json_text

if TYPE_CHECKING:
    from weft.translation.confidence import ConfidenceModel

TARGETS = (0.8, 0.9, 0.95, 0.99)
"""Precision targets that are listed."""


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    right: Annotated[
        str | None,
        typer.Option(
            "--right",
            metavar="HOW",
            help="When an output is right: exact, chrf (at least 50) or, e.g., chrf>=60; by default exact, or chrf for "
            "sentences.",
        ),
    ] = None,
    search: Search = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Use a random sample of N pairs.")] = None,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Fit how likely the outputs of a run are right, for weft translate --confidence.

    weft train does this at the end. The pairs are those of the validation set of the run's recipe, or given ones that
    the run was not trained on; never its test set. The result is confidence.json in the run folder.
    """
    arguments = RunArguments(run, None, device, None, "torch", None, accept_new_data)
    arguments.check()
    settings = search_changes(run, search, changes)
    given = read_given(run, pairs, source, target)
    from weft.evaluation.calibrate import calibrate

    model = calibrate(arguments.load(), given, right=right, limit=limit, **settings)
    typer.echo(json_text(model.record()) if as_json else "\n".join(summary(model)))


def summary(model: ConfidenceModel) -> list[str]:
    """A few lines: what was fitted, and which confidence keeps which precision."""
    auroc = "" if model.auroc is None else f"; AUROC {model.auroc:.3f}"
    effect = model.design_effect
    lines = [
        f"Right: {model.right}. {model.accuracy:.1%} of {model.outputs:,} validation outputs{auroc}",
        *(
            [f"Outputs of the same first column are right or wrong together: {effect:.1f} count as one"]
            * (effect > 1.05)
        ),
        "",
        "precision target   confidence   outputs accepted",
    ]
    for target in TARGETS:
        threshold = model.threshold(target)
        values = "not reached" if threshold is None else f"{threshold.confidence:10.3f}   {threshold.coverage:16.1%}"
        lines.append(f"{target:16.2f}   {values}")
    return lines
