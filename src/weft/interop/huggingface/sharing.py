"""Runs on a Hub of Hugging Face: `push` uploads a run or an exported folder, `pull` makes a run folder of one.

Both go through huggingface_hub, which knows the token of the user (`hf auth login`, HF_TOKEN) and where the Hub is
(HF_ENDPOINT). Only files that belong to a run or to an export travel: no checkpoints, no logs, nothing that a user has
put beside them. A pulled run appears complete, or not at all. Torch is imported only to check what was pulled.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from weft.errors import CheckpointError
from weft.files import read_json
from weft.interop.export_folder import INFO_FILE
from weft.interop.huggingface.hub import without_progress_bars
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_folder
from weft.runtime.activity import activity

NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
RUN_FILES = (
    *("recipe.toml", "model.safetensors", "lengths.json", "confidence.json", "metrics.json", "README.md"),
    *("tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"),
)
"""Files of a run that are uploaded."""
REQUIRED = ("recipe.toml", "model.safetensors")
MAX_REASON = 200
"""Characters of an error of the Hub that are shown."""


def push(folder: Path, name: str, *, private: bool = False, message: str | None = None) -> str:
    """Upload a run, or a folder that `weft export` wrote, as a model on the Hub; returns its address."""
    _check_name(name)
    files = shared_files(folder)
    hub = _library(name)
    with activity(f"uploading {folder} to {name}"), without_progress_bars():
        try:
            address = hub.HfApi().create_repo(name, private=private, exist_ok=True)
            hub.HfApi().upload_folder(
                repo_id=name,
                folder_path=folder,
                allow_patterns=[_literal(file) for file in files],
                commit_message=message or f"weft push {folder.name}",
            )
        except Exception as error:  # it has no common base class: network, HTTP, wrong token, full disk
            raise CheckpointError(f"{name}: not uploaded ({_reason(error)})") from None
    return str(address)


def shared_files(folder: Path) -> list[str]:
    """The files of a run or of an export that are uploaded."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    if (folder / INFO_FILE).is_file():
        return _without_links(folder, [*_exported_files(folder), INFO_FILE])
    RunFolder(folder).check()
    return _without_links(folder, [name for name in RUN_FILES if (folder / name).is_file()])


def _without_links(folder: Path, names: list[str]) -> list[str]:
    """These files, if all are in the folder itself: a link in a stranger's run may lead to any file of this machine."""
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise CheckpointError(
                f"{folder / name}: is a symbolic link out of the folder; put a copy of what it points to in its place"
            )
    return names


def _exported_files(folder: Path) -> list[str]:
    content = read_json(folder / INFO_FILE)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, list):
        raise CheckpointError(f"{folder / INFO_FILE}: names no files; export the run again")
    for file in files:
        if not isinstance(file, str) or Path(file).is_absolute() or ".." in Path(file).parts:
            raise CheckpointError(f"{folder / INFO_FILE}: names {file!r}, which is not a file of this folder")
        if not (folder / file).is_file():
            raise CheckpointError(f"{folder / file}: missing; export the run again")
    return files


def pull(name: str, out: Path | str | None = None, *, revision: str | None = None) -> Path:
    """Download a run from the Hub; ``out``: the run folder to write, by default runs/NAME."""
    _check_name(name)
    out = Path("runs") / name.split("/")[1] if out is None else Path(out)
    RunFolder.check_new(out)
    hub = _library(name)
    with lock_folder(out, "downloading"):
        RunFolder.check_new(out)
        with activity(f"downloading {name}"), without_progress_bars():
            try:
                cached = Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(RUN_FILES)))
            except Exception as error:  # it has no common base class: network, HTTP, missing model, full disk
                raise CheckpointError(f"{name}: not downloaded ({_reason(error)})") from None
        missing = [file for file in REQUIRED if not (cached / file).is_file()]
        if missing:
            raise CheckpointError(
                f"{name}: has no {missing[0]}, so it is not a run of weft; `weft import {name}` converts models of "
                "Hugging Face"
            )
        _check_loadable(cached, name)

        def fill(run: RunFolder) -> None:
            for file in RUN_FILES:
                if (cached / file).is_file():
                    shutil.copyfile(cached / file, run.path / file)

        RunFolder.create(out, fill)
    return out


def _check_loadable(folder: Path, name: str) -> None:
    """Fail if it is not a complete run, before anything is written."""
    from weft.errors import WeftError
    from weft.runs.load import load_run

    try:
        load_run(folder)
    except WeftError as error:
        reason = str(error).split("\n")[0].replace(f"{folder}/", "").replace(str(folder), name)
        raise CheckpointError(f"{name}: damaged: {reason}") from None


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise CheckpointError(f"{name}: not the name of a model on the Hub; expected OWNER/NAME")


def _library(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise CheckpointError(f"{name}: the Hub needs a package: pip install huggingface_hub") from None
    return huggingface_hub


def _literal(file: str) -> str:
    """A pattern that matches this file name alone."""
    return re.sub(r"([*?[])", r"[\1]", file)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_REASON] or type(error).__name__
