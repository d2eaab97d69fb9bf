"""``weft translate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.arguments import Changes, Device, Json, Run, Search, search_changes

if TYPE_CHECKING:
    from weft.translator import Translation


def command(
    run: Run,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="One source a line; - is standard input.")] = "-",
    search: Search = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Outputs a line; tab-separated with scores.")] = 1,
    align: Annotated[bool, typer.Option("--align", help="Add a column of word links (Pharaoh format).")] = False,
    as_json: Json = False,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Translate lines: one line in, one line out, in order.

    With --n-best N: N lines for each, as output, tab, score. With --json: one object a line.
    """
    from weft.data.lines import read_lines
    from weft.errors import SearchError
    from weft.evaluation.alignment import write_pharaoh
    from weft.translator import load

    model = load(run, device=device)
    if align and not model.recipe.model.attends:
        raise SearchError(f"--align: {run} has no attention (model.attention.score = 'none'), so it has no links")
    settings = search_changes(search, changes)
    wants_attention = align or as_json
    for found in model.translate_lines(read_lines(file), n_best=n_best, attention=wants_attention, **settings):
        if as_json:
            typer.echo(json.dumps(record(found), ensure_ascii=False))
            continue
        for one in (found, *found.alternatives):
            columns = [one.text.replace("\t", " ").replace("\n", " ")]
            columns += [f"{one.score:.4f}"] if n_best > 1 else []
            columns += [write_pharaoh(one.links)] if align else []
            typer.echo("\t".join(columns))


def record(found: Translation) -> dict[str, Any]:
    """A translation for ``--json``."""
    result: dict[str, Any] = {
        "source": found.source,
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "token_scores": found.token_scores,
        "source_tokens": found.source_tokens,
        "attention": None if found.attention is None else found.attention.round(6).tolist(),
        "links": found.links,
        "ended": found.ended,
    }
    if found.alternatives:
        result["alternatives"] = [record(one) for one in found.alternatives]
    return result
