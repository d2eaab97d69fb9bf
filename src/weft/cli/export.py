"""``weft export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import Adapter, Run, check_adapter, check_runs
from weft.interop.export import FORMATS


def command(
    run: Run,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"{', '.join(FORMATS)}.")] = "ctranslate2",
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
    onnx: encoder-decoder models, recurrent ones too, for ONNX Runtime (`pip install onnx onnxscript onnxruntime`);
    float32, int8. An adapter is added to the weights.
    """
    from weft.interop.export import export_run

    check_runs(run)
    check_adapter(run, adapter)
    typer.echo(export_run(run, to=to, out=out, quantization=quantization, adapter=adapter))
