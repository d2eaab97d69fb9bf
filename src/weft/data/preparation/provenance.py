"""The provenance of a prepared corpus: it is used only for recipes that would prepare the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.data.batching.batches import Part, StoredCorpus
from weft.data.fingerprints import FileFingerprint, Fingerprints
from weft.data.preparation.corpora import (
    MIXING_SETTINGS,
    CorpusEntry,
    TaskCorpus,
    corpus_files,
    glossary_and_memory_files,
)
from weft.data.preparation.prepare import PreparedCorpus
from weft.data.store.block_tokenizer import RowCounts
from weft.data.store.prepared import PreparedFolder
from weft.errors import DataError
from weft.recipe import Recipe, TokenizerSettings
from weft.text.tokenizer import Tokenizers, load_tokenizers

LEARNING_SETTINGS = {*TokenizerSettings.model_fields} - {"file", "target_file", "dropout", "variants"}
"""Settings of [tokenizer] without effect if a tokenizer file is given."""


def provenance(recipe: Recipe, entries: Sequence[CorpusEntry]) -> dict[str, Any]:
    """Everything that a prepared corpus depends on: settings, and the present state of the files.

    The seed counts for built-in corpora only: runs of several seeds may share a corpus of files, whatever was drawn
    when it was prepared.
    """
    generated = any(isinstance(entry.corpus, TaskCorpus) for entry in entries)
    relevant = {"pipeline", "max_length", "bad_rows", "blank_rows"}
    relevant |= {"train_size", "options"} if generated else set()
    relevant |= {"variants"} if recipe.data.variants > 1 else set()  # folders of earlier versions have none
    data = recipe.data.model_dump(mode="json", include=relevant)
    if any(recipe.data.holdout.model_dump().values()):
        unset = set() if recipe.data.holdout.structure else {"structure"}  # folders of earlier versions have none
        data["holdout"] = recipe.data.holdout.model_dump(mode="json", exclude=unset)
    given = glossary_and_memory_files(recipe)
    data |= {name: getattr(recipe.data, name).model_dump(mode="json", exclude={"file"}) for name in given}
    data["train"] = [entry.settings.model_dump(mode="json", exclude=MIXING_SETTINGS) for entry in entries]
    files = [path for entry in entries for path in corpus_files(entry)]
    files += given.values()
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


def open_prepared(
    recipe: Recipe, folder: Path, entries: Sequence[CorpusEntry], tokenizers: Tokenizers | None
) -> PreparedCorpus:
    """A corpus that was prepared before, if it is the one that the recipe describes."""
    opened = PreparedFolder.open(folder)
    remedy = f"remove {folder}, or set data.prepared to another folder"
    check_provenance(folder, provenance(recipe, entries), opened.about.get("made_of", {}), remedy=remedy)
    paths = sorted(folder.glob("tokenizer*.json"))
    if not paths:
        raise DataError(f"{folder}: its tokenizer.json is missing; remove {folder} and prepare it again")
    prepared_with = load_tokenizers(paths)
    if tokenizers is not None:
        with tempfile.TemporaryDirectory() as temporary:
            contents = [path.read_bytes() for path in tokenizers.save(Path(temporary))]
        if contents != [path.read_bytes() for path in paths]:
            raise DataError(f"{folder}: prepared with a tokenizer other than this run's; {remedy}")
    try:
        parts = tuple(
            Part(**part)._replace(**entry.mixing) for part, entry in zip(opened.about["parts"], entries, strict=True)
        )
        counts = [RowCounts.from_record(record) for record in opened.about["counts"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{folder / 'about.json'}: damaged; remove {folder} and prepare it again") from None
    data = StoredCorpus(opened.pairs, parts, recipe.data.temperature)
    names = [entry.name for entry in entries]
    return PreparedCorpus(data, tokenizers or prepared_with, counts, names, fingerprints=Fingerprints.load(folder))
