"""How a run recognizes the data that it was trained with: fingerprints of its files and of its pairs.

**Files** (data_files.json). A recipe in a run folder comes from the author of the run. The files that it names are read
only

- to train: a new run (`weft train RECIPE`), or a resumed one whose files have not changed;
- if they are the recorded ones, by their contents;
- or if the command line names them, or accepts them (``--accept-new-data``).

So the author of the run already knew what is in them. A fingerprint depends on the contents alone. Files of at most
`WHOLE_BYTES` together are hashed as a whole; of more, so that a start does not wait for them, their sizes and some
pieces of each at even distances, the first and last included: a change between two pieces is not noticed.

**Pairs** (fingerprints.bin), to detect test pairs that a run was trained on. Each distinct pair is 8 bytes: 40 bits of
a hash of its source, then 24 bits of one of its target, sorted. So whether a source was trained on, with any target or
with this one, is a binary search. Texts are compared character for character, as the model sees them: after the steps
of data.pipeline. A language model has no sources: its targets take their place.

Both the file and the time are bounded. From a corpus with more than `MAX_PAIRS` distinct pairs, those with the smallest
hashes are kept; in one with more than `WHOLE_BYTES` of text, only sources whose length is divisible by some power of
two are hashed at all. Only test sources with the same properties are then compared, so the counts are exact for a
sample. A source is matched wrongly with a probability of n / 2^40 if n distinct sources were trained on.
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

import numpy as np

from weft.data.pairs import Pair, text_hashes
from weft.data.reading.corpora import DatasetRows, exists, expand
from weft.errors import CheckpointError, DataError, option, plural
from weft.files import file_version, parse_json, read_bounded, read_json, replacing, save_text

if TYPE_CHECKING:
    from weft.data.preparation.corpora import CorpusEntry
    from weft.recipe import Recipe

WHOLE_BYTES = 256 << 20
"""Size of the files up to which all of them, and every pair, is hashed."""
DATA_FILES, DATA_FILES_FORMAT = "data_files.json", 1
BLOCK_BYTES = 1 << 20
"""Bytes read at a time."""
PIECE_BYTES = 1 << 16
ALL_PIECES = 4096
"""Pieces of all files together: 256 MiB."""
MIN_PIECES, MAX_PIECES = 3, 1024
"""Pieces per file: knowing fewer does not prove knowledge of the file."""
SPLITS = ("train", "valid", "test")
USES = (*SPLITS, "terms", "fuzzy")

FINGERPRINTS, FINGERPRINTS_FORMAT = "fingerprints.bin", 1
"""The file in a run folder, and in the folder of a prepared corpus."""
MAX_PAIRS = 1 << 20
"""Pairs in the file: 8 MiB."""
TARGET_BITS = np.uint64(24)
MAX_HASH_BITS, MAX_DIVISOR, MAX_HEADER = 40, 1 << 40, 1000


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
        sha256 = _hash(str(path.resolve()), state.st_size, pieces, file_version(path))
        return cls(path.name, state.st_size, sha256, pieces)

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
    """``version``: a value that changes when the file does, so that it is hashed once."""
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
    """The data files of a run, by what they were used for: train, valid, test, terms, fuzzy, former or start."""

    files: Mapping[str, Sequence[FileFingerprint]]

    def has(self, path: Path) -> bool:
        """Whether these are the contents of a recorded file."""
        return any(fingerprint.is_of(path) for files in self.files.values() for fingerprint in files)

    def save(self, folder: Path) -> None:
        files = {use: [fingerprint._asdict() for fingerprint in files] for use, files in self.files.items()}
        save_text(
            folder / DATA_FILES, json.dumps({"weft_data_files": DATA_FILES_FORMAT, "files": files}, indent=1) + "\n"
        )

    @classmethod
    def load(cls, folder: Path) -> DataRecord | None:
        """The record of a run folder; None if it has none."""
        path = folder / DATA_FILES
        if not path.is_file():
            return None
        content = read_json(path)
        try:
            if content["weft_data_files"] != DATA_FILES_FORMAT:
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
    files = {use: FileFingerprint.of_all(paths) for use in USES if (paths := _split_files(recipe, use))}
    if recipe.evaluation.former is not None:
        files["former"] = FileFingerprint.of_all([Path(recipe.data.folder) / recipe.evaluation.former])
    if recipe.training.start is not None:
        files["start"] = FileFingerprint.of_all([Path(recipe.training.start) / "model.safetensors"])
    return DataRecord(files)


def check_unchanged(recipe: Recipe, run: Path) -> None:
    """Fail if the data of a run that is resumed have changed, or nothing is known of them; not if they are gone."""
    recorded = DataRecord.load(run)
    remedy = f"restore the former data, or continue with the new: {option('accept_new_data', True)}"
    for split in USES:
        paths = _split_files(recipe, split)
        for path in _split_files(recipe, split, pipes=True):
            if exists(str(path)) and not path.is_file():
                raise DataError(f"{path}: not a regular file (data.{split}); {remedy}")
        if recorded is None and paths:
            accept = option("accept_new_data", True)
            raise DataError(f"{paths[0]}: {run} has no record of its data files; accept what is in it: {accept}")
        if recorded is None or not all(path.is_file() for path in paths):
            continue
        before = recorded.files.get(split, [])
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


def check_outside(recipe: Recipe, split: str = "train") -> None:
    """Fail if the tables of a run may name arrays outside their folders: its author may have made the tables, too."""
    run = recipe.run_of(split) and recipe.run_of("outside")
    if run is not None and recipe.data.outside and recipe.tokenizer.reads_arrays:
        raise _unknown(f"data.outside: the recipe of {run} lets its tables name files outside their folders")


def _unknown(reason: str) -> DataError:
    accept = option("accept_new_data", True)
    if not accept.startswith("--"):
        accept = "run.recipe = run.recipe.accepting_new_data()"
    return DataError(f"{reason}; name the pairs yourself, or accept it: {accept}")


def _split_files(recipe: Recipe, split: str, *, pipes: bool = False) -> list[Path]:
    """The files that a recipe names for a split, or data.terms and data.fuzzy; ``pipes``: with pipes and devices."""
    from weft.data.preparation.corpora import find_corpora, glossary_and_memory_files

    if split not in SPLITS:
        return [path for name, path in glossary_and_memory_files(recipe).items() if name == split]
    if getattr(recipe.data, split) is None:
        return []
    files: list[Path] = []
    for entry in find_corpora(recipe.accepting_new_data(), split, allow_missing=True):
        with suppress(DataError):  # a pattern without matches: reading reports it
            named = expand(entry.corpus.paths()) if pipes else entry.corpus.files()
            files += [Path(name) for name in named if name != "-"]
    return files


class Overlap(NamedTuple):
    """Numbers of test pairs that are in the training data."""

    sources: int
    """Pairs whose source is in the training data."""
    pairs: int
    """Pairs that are in it with the same target too."""
    compared: int
    """Pairs that were looked up: all, or of a large corpus a sample."""
    total: int
    has_sources: bool = True
    """False for a language model, whose texts were compared."""

    def describe(self) -> str:
        """The counts as a sentence."""
        compared = plural(self.compared, "pair" if self.has_sources else "text")
        if self.compared < self.total:
            compared += f" (a sample of {self.total:,})"
        if not self.has_sources:
            return f"{self.sources:,} of {compared} {'is' if self.sources == 1 else 'are'} in the training data"
        verb = "has" if self.sources == 1 else "have"
        return (
            f"{self.sources:,} of {compared} {verb} a source in the training data, {self.pairs:,} with the same target"
        )

    def record(self) -> dict[str, int]:
        """For JSON."""
        return {"sources": self.sources, "pairs": self.pairs, "compared": self.compared}


class Fingerprints(NamedTuple):
    """The fingerprints of the pairs of a corpus."""

    values: np.ndarray
    """uint64, sorted, distinct."""
    hash_bits: int = 0
    """The first bits of a hash that are zero in all that were kept."""
    length_divisor: int = 1
    """Divides the length of all sources that were kept."""
    sources: bool = True
    """False: those of a language model, which has targets only."""

    def overlap(self, pairs: Sequence[Pair]) -> Overlap:
        """Number of these pairs that are in the corpus."""
        fingerprints = fingerprint(pairs, sources=self.sources, length_divisor=self.length_divisor)
        fingerprints = _with_leading_zeros(fingerprints, self.hash_bits)
        known_sources = np.unique(self.values >> TARGET_BITS)
        sources = np.isin(fingerprints >> TARGET_BITS, known_sources)
        known_pairs = np.isin(fingerprints, self.values)
        return Overlap(int(sources.sum()), int(known_pairs.sum()), len(fingerprints), len(pairs), self.sources)

    def known_sources(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """Whether the source of each pair is in the corpus; None where the sample does not cover it."""
        values = fingerprint(pairs, sources=self.sources)
        known = np.isin(values >> TARGET_BITS, np.unique(self.values >> TARGET_BITS))
        texts = [pair.source if self.sources else pair.target for pair in pairs]
        compared = np.array([len(text) % self.length_divisor == 0 for text in texts], bool)
        if self.hash_bits:
            compared &= values >> np.uint64(64 - self.hash_bits) == 0
        return [bool(is_known) if is_compared else None for is_known, is_compared in zip(known, compared, strict=True)]

    def merged(self, other: Fingerprints) -> Fingerprints:
        """The fingerprints of two corpora; only the other's if they were sampled in different ways."""
        if (self.length_divisor, self.sources) != (other.length_divisor, other.sources):
            return other
        collector = FingerprintCollector(sources=other.sources, length_divisor=other.length_divisor)
        collector.hash_bits = max(self.hash_bits, other.hash_bits)
        collector.add(self.values)
        collector.add(other.values)
        return collector.finish()

    def save(self, folder: Path) -> None:
        """Write the file into a folder: a line of JSON, then the values, little-endian."""
        about = {"weft_fingerprints": FINGERPRINTS_FORMAT, **self._asdict()}
        del about["values"]
        with replacing(folder / FINGERPRINTS) as file:
            file.write(json.dumps(about).encode("utf-8") + b"\n" + self.values.astype("<u8").tobytes())

    @classmethod
    def load(cls, folder: Path) -> Fingerprints | None:
        """The fingerprints of a folder; None if it has none."""
        path = folder / FINGERPRINTS
        if not path.is_file():
            return None
        header, _, content = read_bounded(path, max_bytes=8 * MAX_PAIRS + MAX_HEADER).partition(b"\n")
        about = parse_json(header, where=str(path))
        version = about.get("weft_fingerprints") if isinstance(about, dict) else None
        if version != FINGERPRINTS_FORMAT:
            raise CheckpointError(f"{path}: fingerprints of another version of weft; remove the file")
        bits, divisor = about.get("hash_bits"), about.get("length_divisor")
        if not isinstance(bits, int) or not isinstance(divisor, int) or len(content) % 8:
            raise CheckpointError(f"{path}: damaged; remove it, and overlaps are no longer counted")
        if not 0 <= bits < MAX_HASH_BITS or not 1 <= divisor <= MAX_DIVISOR:
            raise CheckpointError(f"{path}: damaged; remove it, and overlaps are no longer counted")
        return cls(np.frombuffer(content, "<u8").astype(np.uint64), bits, divisor, bool(about.get("sources")))


class FingerprintCollector:
    """Collects the fingerprints of a corpus, block by block, in memory for twice `MAX_PAIRS`."""

    def __init__(self, *, sources: bool = True, length_divisor: int = 1, max_pairs: int = MAX_PAIRS) -> None:
        self.sources = sources
        self.length_divisor = length_divisor
        self.max_pairs = max_pairs
        self.hash_bits = 0
        self._parts: list[np.ndarray] = []
        self._size = 0

    def add(self, values: np.ndarray) -> None:
        """The fingerprints of some pairs."""
        values = _with_leading_zeros(values, self.hash_bits)
        self._parts.append(values)
        self._size += len(values)
        if self._size > 2 * self.max_pairs:
            self._compact()

    def finish(self) -> Fingerprints:
        return Fingerprints(self._compact(), self.hash_bits, self.length_divisor, self.sources)

    def _compact(self) -> np.ndarray:
        """Sort what was added, without repetitions and within the limit."""
        values = np.unique(np.concatenate(self._parts)) if self._parts else np.zeros(0, np.uint64)
        while len(values) > self.max_pairs and self.hash_bits < MAX_HASH_BITS - 1:
            self.hash_bits += 1
            values = _with_leading_zeros(values, self.hash_bits)
        self._parts, self._size = [values], len(values)
        return values


def fingerprint(pairs: Sequence[Pair], *, sources: bool = True, length_divisor: int = 1) -> np.ndarray:
    """A uint64 for each pair whose source has a length that the divisor divides."""
    if not sources:
        pairs = [Pair(pair.target, "") for pair in pairs]
    if length_divisor > 1:
        pairs = [pair for pair in pairs if len(pair.source) % length_divisor == 0]
    source = np.array(text_hashes([pair.source for pair in pairs]), np.uint64)
    target = np.array(text_hashes([pair.target for pair in pairs]), np.uint64)
    return (source >> TARGET_BITS << TARGET_BITS) | (target >> (np.uint64(64) - TARGET_BITS))


def length_divisor_for(text_bytes: int) -> int:
    """1 for a text of at most `WHOLE_BYTES`, 2 for one of twice that, and so on."""
    return 1 << max((text_bytes - 1) // WHOLE_BYTES, 0).bit_length()


def _with_leading_zeros(values: np.ndarray, bits: int) -> np.ndarray:
    """The values that start with ``bits`` zero bits."""
    return values if not bits else values[values >> np.uint64(64 - bits) == 0]
