"""Arguments that several commands share, and reading what they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.translation.translator import Translator

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Search = Annotated[
    str | None, typer.Option("--search", metavar="KIND", help="greedy, beam, sample, mbr, exact or exhaustive.")
]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Another run to ask together with it (an ensemble); may be repeated."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", help="Of the products: auto, fp32, bf16 or int8.", show_default=False)
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="Who computes: auto, torch or ctranslate2.", show_default=False)
]
PairsFile = Annotated[
    str | None, typer.Argument(metavar="[PAIRS]", help="A TSV file (source, tab, target); - is standard input.")
]
SourceFile = Annotated[Path | None, typer.Option("--source", help="Sources, one a line …")]
TargetFile = Annotated[Path | None, typer.Option("--target", help="… and their targets.")]


def read_given(pairs: str | None, source: Path | None, target: Path | None) -> list[Pair] | None:
    """The pairs that the command line names, or None if it names none."""
    from weft.data.reading.pair_files import read_pairs, read_parallel

    if pairs is not None and (source or target):
        raise DataError("give PAIRS or --source and --target, not both")
    if pairs is not None:
        return list(read_pairs(pairs))
    if source and target:
        return list(read_parallel(source, target))
    if source or target:
        raise DataError("--source and --target go together: one file of sources, one of targets")
    return None


def search_changes(search: str | None, changes: list[str] | None) -> dict[str, Any]:
    """``--search`` and ``--set search.x=y`` as keyword arguments of a search."""
    from weft.recipe import parse_change

    found: dict[str, Any] = {} if search is None else {"kind": search}
    for change in changes or []:
        path, value = parse_change(change)
        if len(path) != 2 or path[0] != "search":
            raise RecipeError(f"--set {change}: a trained run's search can be changed, for example search.size=8")
        found[path[1]] = value
    return found


def load_run(
    run: Path, more: list[Path] | None, *, device: str, precision: str | None, engine: str | None
) -> Translator:
    """The run, or several as an ensemble, as the command line asks for it."""
    from weft.translation.load import load

    asked = {"precision": precision, "engine": engine}
    chosen: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    return load(*[run, *(more or ())], device=device, **chosen)
