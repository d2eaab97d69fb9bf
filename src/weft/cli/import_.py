"""``weft import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A model folder of Hugging Face, or a model on its Hub: OWNER/NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to write; by default runs/NAME.")] = None,
    source_language: Annotated[
        str | None,
        typer.Option("--source-language", metavar="NAME", help="The language of sources, if it has several."),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option("--target-language", metavar="NAME", help="The language of targets, if it has several."),
    ] = None,
    default_search: Annotated[
        bool, typer.Option("--default-search", help="Use weft's search settings, not those of generation_config.json.")
    ] = False,
) -> None:
    """Convert a pretrained model to a run folder, and print the folder.

    Marian (OPUS-MT), M2M100, NLLB, T5, FLAN-T5, ByT5, mT5, UMT5, BART, mBART and Pegasus, with weights in safetensors.
    """
    from weft.interop.huggingface.importing import ImportOptions, import_model

    options = ImportOptions(source_language, target_language, default_search)
    typer.echo(import_model(source, out, options))
