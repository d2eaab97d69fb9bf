"""The data files that a run was trained with: the record of them, and the comparison with it.

A recipe in a run folder comes from the author of the run. The files that it names are read only

- to train: a new run (`weft train RECIPE`), or a resumed one whose files have not changed;
- if they are the recorded ones, by their contents (`weft.runs.data_record`);
- or if the command line names them, or accepts them (``--accept-new-data``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.data.reading.corpora import DatasetRows, exists, expand
from weft.errors import DataError, option, plural, warn
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
