"""``weft parse``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Changes,
    Device,
    Json,
    Picture,
    check_adapter,
    check_picture,
    check_runs,
    load_runs,
    search_changes,
)
from weft.errors import SearchError
from weft.files import json_text

if TYPE_CHECKING:
    from weft.evaluation.brackets import Constituent


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run that writes trees.", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The sentence to parse.", show_default=False)
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            "--tree", metavar="TEXT", help="In place of RUN and TEXT: a tree, such as '(S (NP he) (VP sleeps))'."
        ),
    ] = None,
    to: Picture = None,
    as_json: Json = False,
    changes: Changes = None,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show the tree of a sentence.

    The run translates sentences to bracketed trees, as that of `weft train trees` does. An output that is no tree is
    an error, which shows it. With --tree, the given tree is drawn.
    """
    check_picture(to)
    if tree is not None:
        if run is not None:
            raise SearchError("--tree: the tree is given; leave out RUN and TEXT")
        _show("", tree, to, as_json)
        return
    if run is None or text is None:
        missing = "RUN and TEXT" if run is None else "TEXT"
        raise SearchError(f"{missing}: missing; give a run and a sentence to parse, or --tree TEXT")
    check_runs(run)
    check_adapter(run, adapter)
    settings = search_changes(run, None, changes)
    model = load_runs(run, device=device, adapter=adapter)
    _show(text, model.translate(text, return_attention=False, **settings).text, to, as_json)


def _show(source: str, output: str, to: Path | None, as_json: bool) -> None:
    """Write the picture, then print its path, the tree as JSON, or its lines."""
    from weft.pictures.parse_tree import draw_parse_tree, read_tree, terminal_parse_tree

    tree = read_tree(output)
    if to is not None:
        draw_parse_tree(tree, to, title=source)
        if not as_json:
            typer.echo(to)
    if as_json:
        typer.echo(json_text({"source": source, "text": output, "tree": record(tree)}))
    elif to is None:
        from rich.console import Console

        console = Console(highlight=False)
        color = console.color_system is not None and not console.no_color
        sys.stdout.write(
            terminal_parse_tree(tree, width=console.width, color=color, ascii_only=console.options.ascii_only)
        )


def record(node: Constituent | str) -> Any:
    """A tree as values of JSON: a word, or a label with children."""
    if isinstance(node, str):
        return node
    return {"label": node.label, "children": [record(child) for child in node.children]}
