"""``weft score``."""

from __future__ import annotations

import json

import typer

from weft.cli.arguments import Device, Json, PairsFile, Run, SourceFile, TargetFile, read_given


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Print log p(target | source) of given pairs.

    One number a line, the end mark included; PAIRS is standard input if nothing is named.
    """
    from weft.translation.load import load

    given = read_given("-" if pairs is None and not (source or target) else pairs, source, target) or []
    model = load(run, device=device)
    for pair, found in zip(given, model.score(given), strict=True):
        if as_json:
            fields = {"source": pair.source, "target": pair.target, **found._asdict()}
            typer.echo(json.dumps(fields, ensure_ascii=False))
        else:
            typer.echo(f"{found.log_probability:.6f}")
