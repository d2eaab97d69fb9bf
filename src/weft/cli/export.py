"""``weft export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import Run
from weft.interop.export import FORMATS


def command(
    run: Run,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"{', '.join(FORMATS)}.")] = "ctranslate2",
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
    from weft.interop.export import export_run

    typer.echo(export_run(run, to=to, out=out, quantization=quantization))
