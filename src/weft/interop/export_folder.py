"""The folder of an export: it appears complete in one rename, and only an earlier export is ever replaced.

``weft.json`` names the format and the files that weft wrote, so files that a user added are recognized. Torch is not
imported here.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import CheckpointError
from weft.files import read_json, save_text
from weft.runs.locks import LOCK_FILES, lock_folder, remove_left_folders

INFO_FILE = "weft.json"


def write_export(folder: Path, kind: str, fill: Callable[[Path], dict[str, Any]]) -> Path:
    """Write a folder; ``fill`` writes its files and returns what ``weft.json`` says besides their names."""
    check_replaceable(folder, kind)
    with lock_folder(folder, "exporting"):
        remove_left_folders(folder)
        check_replaceable(folder, kind)
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        temporary.mkdir(parents=True)
        try:
            facts = fill(temporary)
            content = {"weft_export": kind, **facts, "files": _files(temporary)}
            save_text(temporary / INFO_FILE, json.dumps(content, indent=1) + "\n")
            _replace(folder, temporary)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def check_replaceable(folder: Path, kind: str) -> None:
    """Fail unless there is no such folder, an empty one, or an earlier export without files of a user."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder}: is a symbolic link; give the folder itself with --out")
    if not folder.exists():
        return
    names = _files(folder) if folder.is_dir() else None
    if names == []:
        return
    written = None if names is None else _written(folder, kind)
    if names is None or written is None:
        raise CheckpointError(
            f"{folder}: already exists and is not an export to {kind}; choose another folder with --out"
        )
    if foreign := sorted({*names} - {*written, INFO_FILE}):
        raise CheckpointError(
            f"{folder}: holds {foreign[0]!r} beside the export, which would be lost; move it away, or choose another "
            "folder with --out"
        )


def _written(folder: Path, kind: str) -> list[str] | None:
    """The files of an earlier export; None if the folder holds no export of this kind."""
    try:
        content = read_json(folder / INFO_FILE)
    except (OSError, CheckpointError):
        return None
    if not isinstance(content, dict) or content.get("weft_export") != kind:
        return None
    files = content.get("files")
    return [str(name) for name in files] if isinstance(files, list) else None


def _files(folder: Path) -> list[str]:
    """The files in a folder and below it, without locks."""
    paths = (path for path in folder.rglob("*") if not path.is_dir() and path.name not in LOCK_FILES)
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _replace(folder: Path, new: Path) -> None:
    """Put one folder in place of another: a reader finds the old one, the new one or, for a moment, none."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
