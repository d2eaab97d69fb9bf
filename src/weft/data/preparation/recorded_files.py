"""Which data files a run was trained with: what it records of them, and what is compared with the record.

A recipe in a run folder is data of whoever made the run. The files that it names are read only

- to train: a new run (`weft train RECIPE`), or a resumed one whose files have not changed;
- if they are the recorded ones, by their contents (`weft.runs.data_record`);
- or if the command line names them, or accepts them (``--accept-new-data``).

A folder of a prepared corpus has a record too, its provenance: it is used only for recipes that would prepare the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.reading.corpora import DatasetRows, exists, expand
from weft.errors import DataError, option, plural, warn
from weft.recipe import TokenizerSettings
from weft.runs.data_record import DataRecord, FileFingerprint

if TYPE_CHECKING:
    from weft.data.preparation.corpora import CorpusEntry
    from weft.recipe import Recipe


SPLITS = ("train", "valid", "test")


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


MIXING_SETTINGS = {"weight", "first_step", "last_step"}
"""Settings of a corpus that change nothing in a token store."""

LEARNING_SETTINGS = {*TokenizerSettings.model_fields} - {"file", "target_file", "dropout", "variants"}
"""Settings of [tokenizer] without effect if a tokenizer file is given."""


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
        data["holdout"] = recipe.data.holdout.model_dump(mode="json")
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
