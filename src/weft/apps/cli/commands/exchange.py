"""``weft import``, ``weft export``, ``weft push`` and ``weft pull``: models of other toolkits, and runs on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import Adapter, Run, check_adapter, check_runs
from weft.interop.export import FORMATS

HubName = Annotated[str, typer.Argument(metavar="NAME", help="The model on the Hub: OWNER/NAME.", show_default=False)]


def import_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A Hugging Face model folder, a model on the Hub (OWNER/NAME), model.npz of Marian, a checkpoint "
            "of fairseq, OpenNMT-py or Joey NMT, or a folder with one of these.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to write; by default runs/NAME.")] = None,
    source_language: Annotated[
        str | None,
        typer.Option("--source-language", metavar="NAME", help="The language of sources, if the model has several."),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option("--target-language", metavar="NAME", help="The language of targets, if the model has several."),
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
        typer.Option("--numerics", metavar="marian|huggingface", help="Marian: whose sinusoids and ε of norms to use."),
    ] = "marian",
) -> None:
    """Convert a pretrained model to a run folder, and print the folder.

    From Hugging Face, with weights in safetensors: Marian (OPUS-MT), M2M100, NLLB, T5, FLAN-T5, ByT5, mT5, UMT5, BART,
    mBART and Pegasus. From Marian: Transformers in its own format, .npz. From fairseq, OpenNMT-py and Joey NMT:
    Transformers and most recurrent models; their checkpoints are read without running code.
    """
    from weft.interop.imported_run import ImportOptions
    from weft.interop.importing import import_model

    options = ImportOptions(source_language, target_language, default_search, tuple(vocabularies or ()), numerics)
    typer.echo(import_model(source, out, options))


def export_command(
    run: Run,
    to: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"{', '.join(FORMATS)}.")] = "ctranslate2",
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; by default RUN/FORMAT-QUANTIZATION.")
    ] = None,
    quantization: Annotated[
        str,
        typer.Option(
            "--quantization", metavar="TYPE", help="Data type of the weights: float32, float16, int8 or others."
        ),
    ] = "float32",
    adapter: Adapter = None,
) -> None:
    """Convert a run to the format of other software, and print the folder.

    ctranslate2: encoder-decoder Transformers, for CTranslate2 (`pip install ctranslate2`).
    huggingface: Transformers that transformers has a class for, for AutoModelForSeq2SeqLM; float32, float16, bfloat16.
    marian: models that were imported from Marian or OPUS-MT, as its .npz (`pip install PyYAML`); float32.
    onnx: encoder-decoder models, including recurrent ones, for ONNX Runtime (`pip install onnx onnxscript
    onnxruntime`); float32, int8. An adapter is added to the weights.
    """
    from weft.interop.export import export_run

    check_runs(run)
    check_adapter(run, adapter)
    typer.echo(export_run(run, to=to, out=out, quantization=quantization, adapter=adapter))


def push_command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run folder, or one that weft export wrote.", show_default=False)
    ],
    name: HubName,
    private: Annotated[bool, typer.Option("--private", help="Make a new model private.")] = False,
    message: Annotated[str | None, typer.Option("--message", help="The message of the commit.")] = None,
) -> None:
    """Upload a run or an export to the Hugging Face Hub, and print its address.

    Uploads the recipe, tokenizers, weights and model card; no checkpoints, no log. Log in with `hf auth login` first.
    """
    from weft.interop.huggingface.sharing import push

    typer.echo(push(folder, name, private=private, message=message))


def pull_command(
    name: HubName,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to write; by default runs/NAME.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", metavar="NAME", help="A branch, tag or commit.")] = None,
) -> None:
    """Download a run that weft push uploaded, and print the folder."""
    from weft.interop.huggingface.sharing import pull

    typer.echo(pull(name, out, revision=revision))
