"""Formats of exports are named in a table."""

from pathlib import Path

import pytest

from weft.errors import RecipeError
from weft.interop import export


def test_an_unknown_format():
    with pytest.raises(RecipeError, match=r"^--format ctranslate: unknown format; did you mean 'ctranslate2'\?$"):
        export.export_run("run", to="ctranslate")


def test_a_format_is_a_function_and_a_line(monkeypatch):
    """The function gets the run with the adapter that was chosen."""
    monkeypatch.setattr("weft.runs.load.load_run", lambda path, adapter: (path, adapter))
    monkeypatch.setitem(export.FORMATS, "onnx", lambda run, folder, quantization: folder)
    assert export.export_run("run", to="onnx", quantization="int8") == Path("run/onnx-int8")
    assert export.export_run("run", to="onnx", out=Path("x")) == Path("x")
    monkeypatch.setitem(export.FORMATS, "onnx", lambda run, folder, quantization: run)
    assert export.export_run("run", to="onnx", adapter="medical") == ("run", "medical")


@pytest.mark.parametrize(
    ("to", "function"),
    [
        ("ctranslate2", "weft.translation.engines.ctranslate2.export.export"),
        ("huggingface", "weft.interop.huggingface.exporting.export_model"),
        ("marian", "weft.interop.marian.exporting.export_marian"),
        ("onnx", "weft.interop.onnx.exporting.export_onnx"),
    ],
)
def test_every_format_gets_run_folder_and_quantization(to, function, monkeypatch):
    monkeypatch.setattr(function, lambda run, folder, **options: (run, folder, *options.values()))
    assert export.FORMATS[to]("run", Path("x"), "int8") == ("run", Path("x"), "int8")
