"""Exporting a run: one function per format, and the table of formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import RecipeError, nearest
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.runs.load import LoadedRun


def _ctranslate2(run: LoadedRun, folder: Path, quantization: str) -> Path:
    from weft.translation.engines.ctranslate2.export import export

    return export(run, folder, quantization=quantization)


def _huggingface(run: LoadedRun, folder: Path, quantization: str) -> Path:
    from weft.interop.huggingface.exporting import export_model

    return export_model(run, folder, dtype=quantization)


def _onnx(run: LoadedRun, folder: Path, quantization: str) -> Path:
    from weft.interop.onnx.exporting import export_onnx

    return export_onnx(run, folder, quantization=quantization)


def _marian(run: LoadedRun, folder: Path, quantization: str) -> Path:
    from weft.interop.marian.exporting import export_marian

    return export_marian(run, folder, quantization=quantization)


FORMATS: dict[str, Callable[[LoadedRun, Path, str], Path]] = {
    "ctranslate2": _ctranslate2,
    "huggingface": _huggingface,
    "marian": _marian,
    "onnx": _onnx,
}


def export_run(
    run: Path | str,
    *,
    to: str = "ctranslate2",
    out: Path | None = None,
    quantization: str = "float32",
    adapter: str | None = None,
) -> Path:
    """Write a run in another format; returns the folder, by default RUN/FORMAT-QUANTIZATION.

    ``adapter``: one of the run to add to the weights, or "none"; by default the one that it was trained with, if any.
    """
    if to not in FORMATS:
        raise RecipeError(f"--format {to}: unknown format; {nearest(to, FORMATS)}")
    with activity(f"converting {run} for {to}"):
        from weft.runs.load import load_run

        folder = Path(run) / f"{to}-{quantization}" if out is None else out
        return FORMATS[to](load_run(run, adapter=adapter), folder, quantization)
