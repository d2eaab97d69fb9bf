"""``weft align-heads``."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.apps.cli.arguments import (
    Device,
    Json,
    Limit,
    Run,
    SourceLanguage,
    TargetLanguage,
    check_runs,
    given_corpus,
    load_runs,
)
from weft.files import json_text

DEFAULT_LIMIT = 1000
SHOWN = 5


def command(
    run: Run,
    pairs: Annotated[
        str,
        typer.Argument(metavar="PAIRS", help="A TSV file of source, target and, if there are any, links (0-0 1-2)."),
    ],
    limit: Limit = DEFAULT_LIMIT,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the heads; do not change the run.")] = False,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Find the heads whose attention aligns words best, and write them into the run.

    They become model.decoder.alignment_heads of its recipe: word links and attention maps of weft translate, attend and
    serve are those of these heads from then on; translations do not change. Without links in PAIRS, the links of IBM
    Model 1, fitted to PAIRS, take their place.
    """
    check_runs(run)
    corpus = given_corpus(run, pairs, None, None)
    assert corpus is not None
    from itertools import islice

    from weft.data.reading.corpora import read
    from weft.evaluation.alignment_heads import find_alignment_heads, write_alignment_heads
    from weft.runs.layout import RunFolder

    rows = list(islice(read(corpus), limit))
    translator = load_runs(run, device=device, engine="torch")
    languages = {"source_language": source_language, "target_language": target_language}
    translator, _ = translator.in_languages({name: value for name, value in languages.items() if value})
    chosen = find_alignment_heads(translator, rows)
    if not dry_run:
        write_alignment_heads(RunFolder(run), chosen.heads)
    if as_json:
        best = [{"head": list(head), "error_rate": rate} for head, rate in chosen.single.items()]
        values = chosen._asdict() | {"heads": [list(head) for head in chosen.heads], "single": best}
        typer.echo(json_text(values | {"written": not dry_run}))
        return
    links = "the given links" if chosen.given_links else "the links of IBM Model 1"
    typer.echo(f"Compared with {links} of {chosen.pairs:,} pairs (alignment error rate):")
    for (layer, head), rate in list(chosen.single.items())[:SHOWN]:
        typer.echo(f"  layer {layer}, head {head}: {rate:.1f} %")
    named = ", ".join(f"[{layer}, {head}]" for layer, head in chosen.heads)
    typer.echo(
        f"model.decoder.alignment_heads = [{named}]: {chosen.error_rate:.1f} % on the half of the pairs that they were "
        f"not chosen by; all heads of the layer below the top one: {chosen.layer_error_rate:.1f} %."
    )
