"""``weft score``."""

from __future__ import annotations

import json

import typer

from weft.cli.arguments import Device, Json, PairsFile, Run, SourceFile, TargetFile, check_runs, read_given


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Print log p(target | source) of given pairs, one per line.

    The end-of-sequence token is included. Without PAIRS, --source and --target, standard input is read.
    """
    check_runs(run)
    given = read_given("-" if pairs is None and not (source or target) else pairs, source, target) or []
    from weft.translation.load import load

    model = load(run, device=device)
    for pair, result in zip(given, model.score(given), strict=True):
        if as_json:
            fields = {"source": pair.source, "target": pair.target, **result._asdict()}
            typer.echo(json.dumps(fields, ensure_ascii=False))
        else:
            typer.echo(f"{result.log_probability:.6f}")
