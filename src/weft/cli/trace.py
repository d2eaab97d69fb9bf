"""``weft trace``."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.arguments import Changes, Device, Json, Run, Search, search_changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.search.trace import Trace
    from weft.translation.results import Translation


def command(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to translate.", show_default=False)],
    search: Search = None,
    to: Annotated[Path | None, typer.Option("--to", "--out", help="Write a picture: .svg, .png or .pdf.")] = None,
    as_json: Json = False,
    changes: Changes = None,
    width: Annotated[
        int | None, typer.Option("--width", min=40, help="Columns to write in; the terminal's if not given.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Show how a search went, step by step.

    Of a beam the tree: what was kept, cut and finished, and the way that won. Of greedy search and sampling the
    candidates of every step, which of them were left in, and the one taken. In the terminal or, with --to, a picture.
    """
    from rich.console import Console

    from weft.errors import SearchError
    from weft.translation.load import load
    from weft.views.labels import caption
    from weft.views.picture import check_format
    from weft.views.trace import VIEWS

    if to is not None:
        check_format(to)
    model = load(run, device=device)
    settings = search_changes(search, changes)
    kind = model.search_settings(settings).kind
    found = model.translate(text, return_attention=False, return_trace=True, **settings)
    trace: Trace | None = found.trace
    if not text.strip() and (trace is None or not trace.steps):
        raise SearchError("TEXT is empty: there is nothing to search for")
    if trace is None:
        raise SearchError(f"search.kind: {kind!r} leaves no trace; choose one of beam, greedy, sample")

    def label(token: int) -> str:
        return model.tokenizers.target.tokens([token])[0]

    title = f"{text} → {found.text}"
    if to is not None:
        VIEWS[type(trace)].draw(trace, label, to, title=title)
        if not as_json:
            typer.echo(to)
    if as_json:
        typer.echo(json.dumps(record(found, kind, trace, label), ensure_ascii=False))
    elif to is None:
        console = Console(highlight=False)
        look: dict[str, Any] = {
            "width": width or console.width,
            "color": console.color_system is not None and not console.no_color,
            "ascii_only": console.options.ascii_only,
        }
        heading = caption(title)
        if console.options.ascii_only:
            heading = heading.replace("→", "->").encode("ascii", "backslashreplace").decode()
        sys.stdout.write(f"{heading}\n\n")
        sys.stdout.write(VIEWS[type(trace)].terminal(trace, label, **look))


def record(found: Translation, kind: str, trace: Trace, label: Callable[[int], str]) -> dict[str, Any]:
    """A trace for ``--json``: every token as its text and its id; a probability of 0 has the logarithm null."""
    from weft.search.trace import BeamTrace

    steps: list[Any]
    if isinstance(trace, BeamTrace):
        steps = [
            [
                {"text": label(branch.token)}
                | {name: _finite(value) for name, value in branch._asdict().items()}
                | {"winner": step < len(trace.winner) and trace.winner[step] == place}
                for place, branch in enumerate(branches)
            ]
            for step, branches in enumerate(trace.steps)
        ]
    else:
        steps = [{"texts": [label(token) for token in draw.tokens]} | draw._asdict() for draw in trace.steps]
    result = {
        "source": found.source,
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "search": kind,
        "steps": steps,
    }
    return result | ({"winner": trace.winner} if isinstance(trace, BeamTrace) else {})


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
