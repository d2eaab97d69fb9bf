"""`weft import`: which format a model is in, and the run folder that is made of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from weft.errors import CheckpointError
from weft.interop.imported_run import ImportedModel, ImportOptions, write_run
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_folder
from weft.runtime.activity import activity

SUFFIXES = re.compile(r"(\.npz|\.pt|\.pth|\.ckpt)\b.*$")
"""Suffixes dropped from a file name."""


def import_model(source: str | Path, out: Path | str | None = None, options: ImportOptions = ImportOptions()) -> Path:
    """Write a run folder with a pretrained model: a folder, a file, or the name of a model on the Hugging Face Hub.

    ``out``: the run folder, by default runs/NAME.
    """
    name = run_name(str(source))
    out = Path("runs") / name if out is None else Path(out)
    read = _reader(str(source))
    RunFolder.check_new(out)
    with lock_folder(out, "importing"):
        RunFolder.check_new(out)
        with activity(f"importing {source}"):
            write_run(out, name, read(str(source), options))
    return out


def run_name(source: str) -> str:
    """The name of a run: the last part of the model's name, without characters that a folder name may not have."""
    path = Path(source).expanduser()
    last = path.resolve().name if path.is_dir() else source.split("/")[-1]
    if path.is_file():
        last = SUFFIXES.sub("", path.name)
    return re.sub(r"^\W+|[^\w .+-]", "", last) or "imported"


def _reader(source: str) -> Callable[[str, ImportOptions], ImportedModel]:
    """The reader for the format of the model."""
    from weft.interop import checkpoints, marian
    from weft.interop.huggingface.importing import read_model

    path = Path(source).expanduser()
    if RunFolder(path).recipe.is_file() and RunFolder(path).model.is_file() and not (path / "config.json").exists():
        raise CheckpointError(
            f"{source}: is a run of weft already; use it as it is: weft translate {shlex.quote(source)}"
        )
    if marian.is_model(path):
        return marian.read_model
    return checkpoints.read_model if checkpoints.is_checkpoint(path) else read_model
