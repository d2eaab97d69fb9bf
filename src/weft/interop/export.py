"""Exporting a run: one function per format, and the table of formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weft.activity import activity
from weft.errors import RecipeError, nearest


def _ctranslate2(run: Path, folder: Path, quantization: str) -> Path:
    from weft.runs.load import load_run
    from weft.translation.engines.ctranslate2.export import export

    return export(load_run(run), folder, quantization=quantization)


def _huggingface(run: Path, folder: Path, quantization: str) -> Path:
    from weft.interop.huggingface.exporting import export_model
    from weft.runs.load import load_run

    return export_model(load_run(run), folder, dtype=quantization)


def _onnx(run: Path, folder: Path, quantization: str) -> Path:
    from weft.interop.onnx.exporting import export_onnx
    from weft.runs.load import load_run

    return export_onnx(load_run(run), folder, quantization=quantization)


FORMATS: dict[str, Callable[[Path, Path, str], Path]] = {
    "ctranslate2": _ctranslate2,
    "huggingface": _huggingface,
    "onnx": _onnx,
}


def export_run(
    run: Path | str, *, to: str = "ctranslate2", out: Path | None = None, quantization: str = "float32"
) -> Path:
    """Write a run in another format; returns the folder, by default RUN/FORMAT-QUANTIZATION."""
    if to not in FORMATS:
        raise RecipeError(f"--to {to}: unknown format; {nearest(to, FORMATS)}")
    with activity(f"converting {run} for {to}"):
        return FORMATS[to](Path(run), Path(run) / f"{to}-{quantization}" if out is None else out, quantization)
