"""Finding the checkpoint of a folder and its vocabularies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from weft.errors import CheckpointError

SUFFIXES = (".pt", ".pth", ".ckpt")
PREFERRED = ("best.ckpt", "checkpoint_best.pt", "model.pt", "latest.ckpt", "checkpoint_last.pt")
"""Checkpoints of a training, the most useful first."""
NUMBERED = re.compile(r"(?P<step>\d+)\.(?:pt|pth|ckpt)$")


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a checkpoint, or a folder with one that is not a Hugging Face folder."""
    if path.is_dir():
        return not (path / "config.json").exists() and any(_checkpoints(path))
    return path.suffix in SUFFIXES and path.is_file()


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def find_checkpoint(path: Path) -> Path:
    """The file itself; of a folder, the best checkpoint, or that of the last step."""
    if path.is_file():
        return path
    files = _checkpoints(path)
    for name in PREFERRED:
        if path / name in files:
            return path / name
    steps = {int(match["step"]): file for file in files if (match := NUMBERED.search(file.name))}
    if len(files) == 1 or len(steps) < len(files):
        if len(files) > 1:
            raise CheckpointError(f"{path}: has {len(files)} checkpoints; name one of them, such as {files[0]}")
        return files[0]
    return steps[max(steps)]


def find_vocabularies(folder: Path, given: Sequence[Path], names: tuple[str, str]) -> tuple[Path, Path]:
    """The vocabularies of source and target: those that the user names, or files of these names beside a checkpoint."""
    files = (*given,) if given else tuple(folder / name for name in names)
    if len(files) > 2:
        raise CheckpointError(f"--vocab: {len(files)} files were given, expected one or two")
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: no such file; name the vocabularies of source and target: --vocab FILE")
    return files[0], files[-1]
