"""``weft trace``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Changes,
    Device,
    Json,
    Search,
    check_adapter,
    check_picture,
    check_runs,
    load_runs,
    search_changes,
)
from weft.errors import SearchError
from weft.files import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apps.probes.table import TableTrace
    from weft.search.trace import Trace
    from weft.translation.results import CopiedTokens, Translation


def command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to translate.", show_default=False)
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE",
            help="In place of RUN and TEXT: a TOML file of next-token probabilities, or pie, which weft ships.",
        ),
    ] = None,
    search: Search = None,
    to: Annotated[Path | None, typer.Option("--to", "--out", help="Write a picture: .svg, .png or .pdf.")] = None,
    as_json: Json = False,
    changes: Changes = None,
    width: Annotated[
        int | None, typer.Option("--width", min=40, help="Columns of the output; by default those of the terminal.")
    ] = None,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show the steps of a search.

    Beam search: the tree of hypotheses that were kept, pruned and finished, and the best path. Greedy search and
    sampling: the candidates of every step, those that the sampling filters kept, and the chosen one. For a model
    that copies (model.copy), a table shows how much of each token of the output was copied. With --table, the
    search runs on given probabilities, such as those of a lecture (docs/decoding.md has the format).
    """
    check_picture(to)
    if table is not None:
        if run is not None:
            raise SearchError("--table: the probabilities are those of the table; leave out RUN and TEXT")
        _trace_table(table, search_changes(None, search, changes), OutputOptions(to, as_json, width))
        return
    if run is None or text is None:
        missing = "RUN and TEXT" if run is None else "TEXT"
        raise SearchError(f"{missing}: missing; give a run and a text to translate, or --table FILE")
    check_runs(run)
    check_adapter(run, adapter)
    settings = search_changes(run, search, changes)
    from weft.translation.pipeline import NO_TOKEN

    model = load_runs(run, device=device, adapter=adapter)
    kind = model.search_settings(settings).kind
    translation = model.translate(text, return_attention=False, return_trace=True, **settings)
    trace = translation.trace
    if not text.strip() and (trace is None or not trace.steps):
        raise SearchError("TEXT is empty: there is nothing to search for")
    if trace is None:
        raise SearchError(f"search.kind: {kind!r} has no trace; choose one of beam, greedy, sample")

    target = model.tokenizers_for(text).target

    def label(token: int) -> str:
        # A copying model also has ids for the end and the padding of the source, with a probability of zero.
        return target.tokens([token])[0] if token < target.size else NO_TOKEN

    _show(translation, trace, kind, label, OutputOptions(to, as_json, width, model.copied_tokens(translation)))


def _trace_table(table: str, settings: dict[str, Any], output: OutputOptions) -> None:
    """Search in given probabilities."""
    from weft.apps.probes.table import read_table, trace_table

    result = trace_table(read_table(table), **settings)
    _show(result, result.trace, result.kind, result.label, output)


class OutputOptions(NamedTuple):
    """Where and how the trace is written: --to, --json and --width, and the copied tokens of the best output."""

    to: Path | None
    as_json: bool
    width: int | None
    copied: CopiedTokens | None = None


def _show(
    result: Translation | TableTrace, trace: Trace, kind: str, label: Callable[[int], str], output: OutputOptions
) -> None:
    from weft.pictures.trace import VIEWS

    title = f"{result.source} → {result.text}"
    if output.to is not None:
        VIEWS[type(trace)].draw(trace, label, output.to, title=title)
        if not output.as_json:
            typer.echo(output.to)
    if output.as_json:
        values = record(result, kind, trace, label)
        if output.copied:
            values["copied"] = output.copied._asdict()
        typer.echo(json_text(values))
    elif output.to is None:
        _print(trace, label, title, output.width)
        if output.copied:
            _print_copied(output.copied)


def _print_copied(copied: CopiedTokens) -> None:
    """Print the tokens of the best output that were copied."""
    from rich.console import Console

    from weft.pictures.terminal import terminal_copied_tokens

    sys.stdout.write(f"\n{terminal_copied_tokens(*copied, ascii_only=Console().options.ascii_only)}\n")


def _print(trace: Trace, label: Callable[[int], str], title: str, width: int | None) -> None:
    from rich.console import Console

    from weft.pictures.labels import caption
    from weft.pictures.terminal import ascii_text
    from weft.pictures.trace import VIEWS

    console = Console(highlight=False)
    heading = caption(title)
    if console.options.ascii_only:
        heading = ascii_text(heading.replace("→", "->"))
    lines = VIEWS[type(trace)].terminal(
        trace,
        label,
        width=width or console.width,
        color=console.color_system is not None and not console.no_color,
        ascii_only=console.options.ascii_only,
    )
    sys.stdout.write(f"{heading}\n\n{lines}")


def record(result: Translation | TableTrace, kind: str, trace: Trace, label: Callable[[int], str]) -> dict[str, Any]:
    """A trace for ``--json``: every token as text and id."""
    from weft.search.trace import BeamTrace

    steps: list[Any]
    if isinstance(trace, BeamTrace):
        steps = [
            [
                {"text": label(branch.token)}
                | branch._asdict()
                | {"winner": step < len(trace.winner) and trace.winner[step] == index}
                for index, branch in enumerate(branches)
            ]
            for step, branches in enumerate(trace.steps)
        ]
    else:
        steps = [{"texts": [label(token) for token in draw.tokens]} | draw._asdict() for draw in trace.steps]
    values = {
        "source": result.source,
        "text": result.text,
        "score": result.score,
        "log_probability": result.log_probability,
        "gap": result.gap,
        "search": kind,
        "steps": steps,
    }
    return values | ({"winner": trace.winner} if isinstance(trace, BeamTrace) else {})
