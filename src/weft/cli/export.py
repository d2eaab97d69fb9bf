"""``weft export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import Run

FORMATS = ("ctranslate2",)


def command(
    run: Run,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="ctranslate2.")] = "ctranslate2",
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; not given: RUN/FORMAT-QUANTIZATION.")
    ] = None,
    quantization: Annotated[
        str,
        typer.Option(
            "--quantization", metavar="TYPE", help="How weights are stored: float32, float16, int8 or others."
        ),
    ] = "float32",
) -> None:
    """Write a run in the format of another engine, and print the folder.

    ctranslate2: Transformers with an encoder and a decoder, for CTranslate2 (`pip install ctranslate2`).
    """
    from weft.errors import RecipeError, nearest
    from weft.interop.ctranslate2_export import export

    if to not in FORMATS:
        raise RecipeError(f"--to {to}: unknown format; {nearest(to, FORMATS)}")
    typer.echo(export(run, run / f"{to}-{quantization}" if out is None else out, quantization=quantization))
