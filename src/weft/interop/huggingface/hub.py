"""A model on the Hugging Face Hub: its files, downloaded to the cache of huggingface_hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import CheckpointError
from weft.runtime.activity import activity

PATTERNS = ("*.json", "*.safetensors", "*.model", "*.spm", "*.txt")
"""The files that an import reads. Pickles and code are left out."""


def find_folder(source: str) -> Path:
    """The folder that a user named, or that of a model on the Hub, such as Helsinki-NLP/opus-mt-en-fr."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(
            f"{source}: a file that is not imported; expected a model folder of Hugging Face, model.npz of Marian, or "
            "a checkpoint of fairseq, OpenNMT-py or Joey NMT (.pt, .pth, .ckpt)"
        )
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise CheckpointError(f"{source}: no such folder, and not the name of a model on the Hub (OWNER/NAME)")
    return download(source)


def download(name: str) -> Path:
    """The files of a model on the Hub; those of an earlier download if the Hub cannot be reached."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"{name}: no such folder; for a model on the Hub install its package: pip install huggingface_hub"
        ) from None
    try:
        with activity(f"downloading {name}"), without_progress_bars():
            return Path(snapshot_download(name, allow_patterns=list(PATTERNS)))
    except Exception as error:  # it has no common base class: network, HTTP, missing repository, full disk
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise CheckpointError(f"{name}: no such folder, and not downloaded from the Hub ({reason})") from None


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """huggingface_hub draws none: the command shows its own progress."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
