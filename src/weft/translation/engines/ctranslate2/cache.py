"""Exported models in the cache folder of the user, so that a run is converted once.

    CACHE/ctranslate2/KEY/                what `write_model` writes
    CACHE/ctranslate2/KEY/checksums.json  the SHA-256 of each of these files

CACHE is `weft.files.cache_folder`. KEY is a hash of everything that an export depends on: the weights, the settings of
the model, the sizes of the vocabularies, what outputs start with, the quantization, and the versions of weft and
CTranslate2. Nothing else in a run folder affects what is loaded.

An entry appears in one rename, so several processes may share the cache. One that is damaged (its checksums do
not match) or belongs to another user is not used; a damaged one is replaced. When an entry is added, those that were
not used for the longest time are removed until the rest takes at most `MAX_BYTES`, except those used within the last
hour, which a process may be about to read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from weft import __version__
from weft.errors import CheckpointError
from weft.files import cache_folder, read_json, save_text
from weft.runs.load import LoadedRun
from weft.runs.weights import hash_tensors, model_tensors
from weft.translation.engines.ctranslate2.export import FORMAT, write_model

MAX_BYTES = 4 << 30
"""The most bytes of all entries together."""
IN_USE_SECONDS = 3600
"""An entry that was used within this time is not removed."""
CHECKSUMS = "checksums.json"


def cached_export(run: LoadedRun, *, quantization: str) -> Path | None:
    """The folder of a run's exported model, made if it is not in the cache; None if the cache cannot be written."""
    cache = cache_folder()
    if cache is None:
        return None
    entries = cache / "ctranslate2"
    entry = entries / export_key(run, quantization)
    try:
        if not _is_intact(entry):
            entries.mkdir(parents=True, exist_ok=True, mode=0o700)
            _add(entry, run, quantization)
            _remove_old(entries, keep=entry)
    except OSError:
        return None
    with suppress(OSError):  # a cache that can be read and not written
        os.utime(entry / CHECKSUMS)
    return entry


def export_key(run: LoadedRun, quantization: str) -> str:
    """A hash of everything that an export depends on."""
    parts = {
        "format": FORMAT,
        "weft": __version__,
        "ctranslate2": version("ctranslate2"),
        "quantization": quantization,
        "model": run.recipe.model.model_dump(mode="json"),
        "vocabularies": [run.tokenizers.source.size, run.tokenizers.target.size],
        "start": run.tokenizers.frame.start,
        "weights": hash_tensors(model_tensors(run.model)),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def _belongs_to_user(path: Path) -> bool:
    return path.stat().st_uid in (os.getuid(), 0)


def _is_intact(entry: Path) -> bool:
    """Whether all files of an entry are as they were written, by this user."""
    try:
        expected = read_json(entry / CHECKSUMS)
        return isinstance(expected, dict) and _belongs_to_user(entry) and expected == _checksums(entry)
    except (OSError, CheckpointError):
        return False


def _checksums(folder: Path) -> dict[str, str]:
    checksums = {}
    for path in sorted(folder.iterdir()):
        if path.name != CHECKSUMS:
            with path.open("rb") as file:
                checksums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return checksums


def _add(entry: Path, run: LoadedRun, quantization: str) -> None:
    """Write an entry; a damaged one is replaced."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=entry.parent, ignore_cleanup_errors=True) as temporary:
        new = Path(temporary) / "model"
        write_model(run, new, quantization=quantization)
        save_text(new / CHECKSUMS, json.dumps(_checksums(new), indent=1))
        try:
            if entry.exists():
                entry.rename(Path(temporary) / "old")
            new.rename(entry)
        except OSError:
            if not _is_intact(entry):  # otherwise another process has just written the same
                raise


def _remove_old(entries: Path, *, keep: Path) -> None:
    """Remove what was not used for the longest time, and what killed processes left behind."""
    now, used, total = time.time(), [], 0
    for path in entries.iterdir():
        try:
            size = sum(file.stat().st_size for file in path.rglob("*"))
            last = (path if path.name.startswith(".") else path / CHECKSUMS).stat().st_mtime
        except OSError:  # another process is removing it
            continue
        total += size
        if path != keep and now - last > IN_USE_SECONDS:
            used.append((last, size, path))
    for _, size, path in sorted(used):
        if total <= MAX_BYTES and not path.name.startswith("."):
            continue
        removed = path.with_name(f".removed-{os.getpid()}-{path.name.lstrip('.')}")
        try:
            path.rename(removed)
        except OSError:
            continue
        shutil.rmtree(removed, ignore_errors=True)
        total -= size
