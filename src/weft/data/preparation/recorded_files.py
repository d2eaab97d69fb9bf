"""The data files that a run was trained with: the record of them, and the comparison with it.

A recipe in a run folder comes from the author of the run. The files that it names are read only

- to train: a new run (`weft train RECIPE`), or a resumed one whose files have not changed;
- if they are the recorded ones, by their contents (data_files.json);
- or if the command line names them, or accepts them (``--accept-new-data``).

So whoever wrote the run knew what is in them. A fingerprint depends on the contents alone, not on name, place or time.
Files of at most `WHOLE_BYTES` together are hashed as a whole; of more, so that a start does not wait for them, their
sizes and some pieces of each at even distances, the first and last included: a change of the same length between two
pieces is not noticed.

A folder of a prepared corpus has a record too, its provenance: it is used only for recipes that would prepare the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.data.reading.corpora import DatasetRows, exists, expand
from weft.errors import CheckpointError, DataError, option, plural, warn
from weft.files import read_json, save_text
from weft.recipe import TokenizerSettings

if TYPE_CHECKING:
    from weft.data.preparation.corpora import CorpusEntry
    from weft.recipe import Recipe

NAME = "data_files.json"
FORMAT = 1
BLOCK_BYTES = 1 << 20
"""Bytes read at a time."""
WHOLE_BYTES = 256 << 20
PIECE_BYTES = 1 << 16
ALL_PIECES = 4096
"""Pieces of all files together: 256 MiB."""
MIN_PIECES, MAX_PIECES = 3, 1024
"""Pieces per file: knowing fewer does not prove knowledge of the file."""
MIXING_SETTINGS = {"weight", "first_step", "last_step"}
"""Settings of a corpus that change nothing in a token store."""

LEARNING_SETTINGS = {*TokenizerSettings.model_fields} - {"file", "target_file", "dropout", "variants"}
"""Settings of [tokenizer] without effect if a tokenizer file is given."""
SPLITS = ("train", "valid", "test")


class FileFingerprint(NamedTuple):
    """A file by its contents."""

    name: str
    """File name without its folder; for messages only."""
    size: int
    sha256: str
    pieces: int = 0
    """Number of hashed pieces; 0: the whole file."""

    def is_of(self, path: Path) -> bool:
        """Whether these are the contents of a file; one of another size is not opened."""
        try:
            return path.stat().st_size == self.size and FileFingerprint.of(path, self.pieces).sha256 == self.sha256
        except (OSError, ValueError):
            return False

    @classmethod
    def of(cls, path: Path, pieces: int = 0) -> FileFingerprint:
        """The fingerprint of a regular file; OSError if it cannot be read."""
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # opening a pipe waits for its writer, and a device may have no end
            raise OSError(f"{path}: not a regular file")
        version = state.st_ino, state.st_mtime_ns, state.st_ctime_ns
        return cls(path.name, state.st_size, _hash(str(path.resolve()), state.st_size, pieces, version), pieces)

    @classmethod
    def of_all(cls, paths: Sequence[Path]) -> list[FileFingerprint]:
        """The fingerprints of the files of a corpus; unreadable files have none."""
        files = []
        for path in paths:
            with suppress(OSError, ValueError):
                files.append((path, path.stat().st_size))
        pieces = 0
        if sum(size for _, size in files) > WHOLE_BYTES:
            pieces = min(max(ALL_PIECES // len(files), MIN_PIECES), MAX_PIECES)
        fingerprints = []
        for path, _ in files:
            with suppress(OSError, ValueError):
                fingerprints.append(cls.of(path, pieces))
        return fingerprints


@lru_cache(maxsize=1024)
def _hash(path: str, size: int, pieces: int, version: tuple[int, ...]) -> str:
    """``version``: what changes when the file does, so that it is hashed once."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (unbuffered)
        if not pieces or size <= pieces * PIECE_BYTES:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        else:
            for piece in range(pieces):
                file.seek(piece * (size - PIECE_BYTES) // (pieces - 1), os.SEEK_SET)
                digest.update(file.read(PIECE_BYTES))
    return digest.hexdigest()


class DataRecord(NamedTuple):
    """The data files of a run, by what they were used for: train, valid, test, former or start."""

    files: Mapping[str, Sequence[FileFingerprint]]

    def has(self, path: Path) -> bool:
        """Whether these are the contents of a recorded file."""
        return any(fingerprint.is_of(path) for files in self.files.values() for fingerprint in files)

    def save(self, folder: Path) -> None:
        files = {use: [fingerprint._asdict() for fingerprint in files] for use, files in self.files.items()}
        save_text(folder / NAME, json.dumps({"weft_data_files": FORMAT, "files": files}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> DataRecord | None:
        """The record of a run folder; None if it has none."""
        path = folder / NAME
        if not path.is_file():
            return None
        content = read_json(path)
        try:
            if content["weft_data_files"] != FORMAT:
                raise CheckpointError(f"{path}: written by another version of weft; remove it")
            files = {str(use): [_fingerprint(file) for file in files] for use, files in content["files"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(f"{path}: damaged; remove it") from None
        return cls(files)


def _fingerprint(entry: Mapping[str, Any]) -> FileFingerprint:
    pieces = int(entry["pieces"])
    if pieces and not MIN_PIECES <= pieces <= MAX_PIECES:
        raise ValueError
    return FileFingerprint(str(entry["name"]), int(entry["size"]), str(entry["sha256"]), pieces)


def record_data_files(recipe: Recipe) -> DataRecord:
    """The fingerprints of the files that a recipe names, as they are now; missing files and pipes have none."""
    files = {split: FileFingerprint.of_all(paths) for split in SPLITS if (paths := _split_files(recipe, split))}
    if recipe.evaluation.former is not None:
        files["former"] = FileFingerprint.of_all([Path(recipe.data.folder) / recipe.evaluation.former])
    if recipe.training.start is not None:
        files["start"] = FileFingerprint.of_all([Path(recipe.training.start) / "model.safetensors"])
    return DataRecord(files)


def check_unchanged(recipe: Recipe, run: Path) -> None:
    """Fail if the data of a run that is resumed have changed since it was trained; files that are gone do not count."""
    recorded = DataRecord.load(run)
    if recorded is None:
        files = [str(path) for split in SPLITS for path in _split_files(recipe, split)]
        if files:
            shown = ", ".join(dict.fromkeys(files[:3])) + (", …" if len(files) > 3 else "")
            warn(f"{run}: has no record of its data files; resumed with what is in them now: {shown}")
        return
    remedy = f"restore the former data, or continue with the new: {option('accept_new_data', True)}"
    for split in SPLITS:
        paths, before = _split_files(recipe, split), recorded.files.get(split, [])
        if not all(path.is_file() for path in paths):
            continue
        if len(before) != len(paths):
            now = plural(len(paths), "file")
            raise DataError(f"data.{split}: {now} now, {len(before)} when {run} was trained; {remedy}")
        for path, fingerprint in zip(paths, before, strict=True):
            if not fingerprint.is_of(path):
                raise DataError(f"{path}: has changed since {run} was trained with it (data.{split}); {remedy}")


def check_recorded(run: Path, split: str, entries: Sequence[CorpusEntry]) -> None:
    """Fail if one of these corpora, which the recipe of a run names, is not what the run was trained with."""
    for entry in entries:
        corpus = getattr(entry.corpus, "corpus", entry.corpus)  # of which it is a part
        if isinstance(corpus, DatasetRows) and not Path(corpus.name).is_dir():
            named = f"data.{split}: {corpus.name}: the recipe of {run} names it"
            raise _unknown(f"{named}, but of datasets of the Hub nothing is recorded")
        listed = [Path(path) for path in expand(corpus.paths()) if path != "-"]
        check_recorded_files(run, f"data.{split}", listed or corpus.files())


def check_recorded_files(run: Path, setting: str, paths: Sequence[Path]) -> None:
    """Fail if one of these files, which a setting of a run's recipe names, is not what the run was trained with."""
    existing = [path for path in paths if exists(str(path))]
    record = DataRecord.load(run) if existing else None
    for path in existing:
        named = f"{setting}: {path}: the recipe of {run} names it"
        if record is None:
            raise _unknown(f"{named}, but the run has no record of its data files")
        if not record.has(path):
            raise _unknown(f"{named}, but it is nothing that the run was trained with")


def _unknown(reason: str) -> DataError:
    accept = option("accept_new_data", True)
    if not accept.startswith("--"):
        accept = "run.recipe = run.recipe.accepting_new_data()"
    return DataError(f"{reason}; name the pairs yourself, or accept it: {accept}")


def _split_files(recipe: Recipe, split: str) -> list[Path]:
    """The files that a recipe names for a split; none if it is held out from the training pairs."""
    from weft.data.preparation.corpora import find_corpora

    if getattr(recipe.data, split) is None:
        return []
    files: list[Path] = []
    for entry in find_corpora(recipe.accepting_new_data(), split, allow_missing=True):
        try:
            files += entry.corpus.files()
        except DataError:  # a pattern without matches: reading reports it
            continue
    return files


def corpus_files(entry: CorpusEntry) -> list[Path]:
    """The files of a corpus; none if a pattern matches none."""
    try:
        return entry.corpus.files()
    except DataError:
        return []


def provenance(recipe: Recipe, entries: Sequence[CorpusEntry]) -> dict[str, Any]:
    """Everything that a prepared corpus depends on: settings, and the present state of the files.

    The seed counts for built-in corpora only: runs of several seeds may share a corpus of files, whatever was drawn
    when it was prepared.
    """
    from weft.data.preparation.corpora import TaskCorpus

    generated = any(isinstance(entry.corpus, TaskCorpus) for entry in entries)
    relevant = {"pipeline", "max_length", "bad_rows", "blank_rows"}
    relevant |= {"train_size", "options"} if generated else set()
    data = recipe.data.model_dump(mode="json", include=relevant)
    if any(recipe.data.holdout.model_dump().values()):
        unset = set() if recipe.data.holdout.structure else {"structure"}  # folders of earlier versions have none
        data["holdout"] = recipe.data.holdout.model_dump(mode="json", exclude=unset)
    data["train"] = [entry.settings.model_dump(mode="json", exclude=MIXING_SETTINGS) for entry in entries]
    files = [path for entry in entries for path in corpus_files(entry)]
    names = [recipe.tokenizer.file, recipe.tokenizer.target_file]
    files += [Path(recipe.data.folder) / name for name in names if name is not None]
    states = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in files if path.is_file()}
    learned = recipe.tokenizer.file is None
    tokenizer = recipe.tokenizer.model_dump(
        mode="json", exclude={"extend", "new_languages"} if learned else LEARNING_SETTINGS, exclude_none=not learned
    )
    columns = recipe.model.sources.count
    record = {
        "data": data,
        "tokenizer": tokenizer,
        "sources": recipe.source_role if columns == 1 else f"{recipe.source_role}: {columns} columns",
        "start": recipe.training.start,
        "seed": recipe.seed if generated else None,
        "files": states,
    }
    if recipe.model.copies:  # the ids of tokens that are not in the vocabularies depend on it
        record["model.copy"] = True
    return dict(json.loads(json.dumps(record)))


def check_provenance(folder: Path, current: Mapping[str, Any], recorded: Mapping[str, Any], *, remedy: str) -> None:
    """Raise if a folder was prepared from other settings or files."""
    for group in ("data", "tokenizer", "sources", "start", "seed", "model.copy"):
        now, then = current.get(group), recorded.get(group)
        if now != then:
            if isinstance(now, dict) and isinstance(then, dict):
                group += "." + next(key for key in [*now, *then] if now.get(key, ...) != then.get(key, ...))
            raise DataError(f"{folder}: prepared with another {group}; {remedy}")
    for path, state in current["files"].items():  # files that were moved or removed are not compared
        if not _is_unchanged(Path(path), state, recorded.get("files", {}).get(path, state)):
            raise DataError(f"{folder}: {path} has changed since it was prepared; {remedy}")


def with_contents(record: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a corpus to be prepared, with hashes of its files: one that is copied later has a new time."""
    files = {}
    for path, state in record["files"].items():
        contents = [[file.sha256, file.pieces] for file in FileFingerprint.of_all([Path(path)])]
        files[path] = [*state, *contents]
    return {**record, "files": files}


def _is_unchanged(path: Path, state: Sequence[Any], recorded: Sequence[Any]) -> bool:
    """Whether size and time are the recorded ones or, if the time is another, the contents are."""
    if [*recorded[:2]] == [*state]:
        return True
    return any(FileFingerprint(path.name, recorded[0], *content).is_of(path) for content in recorded[2:])
