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
            help="A model folder of Hugging Face, a model on its Hub (OWNER/NAME), model.npz of Marian, a checkpoint "
            "of fairseq, OpenNMT-py or Joey NMT, or a folder with one of these.",
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
        bool, typer.Option("--default-search", help="Use weft's search settings, not those of the original.")
    ] = False,
    vocabularies: Annotated[
        list[Path] | None,
        typer.Option(
            "--vocab",
            metavar="FILE",
            help="Marian, fairseq, Joey NMT: the vocabulary; twice, if source and target have two.",
        ),
    ] = None,
    numerics: Annotated[
        str,
        typer.Option("--numerics", metavar="marian|huggingface", help="Marian: whose sinusoids and ε of norms."),
    ] = "marian",
) -> None:
    """Convert a pretrained model to a run folder, and print the folder.

    Of Hugging Face, with weights in safetensors: Marian (OPUS-MT), M2M100, NLLB, T5, FLAN-T5, ByT5, mT5, UMT5, BART,
    mBART and Pegasus. Of Marian: Transformers in its own format, .npz. Of fairseq, OpenNMT-py and Joey NMT:
    Transformers and most recurrent models; their checkpoints are read without running code.
    """
    from weft.interop.importing import import_model
    from weft.interop.options import ImportOptions

    options = ImportOptions(source_language, target_language, default_search, tuple(vocabularies or ()), numerics)
    typer.echo(import_model(source, out, options))
