"""The token store on disk: a corpus prepared once, opened instantly by any number of runs.

    about.json                 format, what it was made of, its parts, its size, what was dropped, checksums
    tokenizer*.json            what its ids mean
    source.ids, target.ids     all sequences end to end, 2 bytes per id (4 for vocabularies above 65,536)
    source.starts, ...         where each sequence starts, 8 bytes each, and where the last one ends
    fingerprints.bin           hashes of the pairs (`weft.data.store.fingerprints`)

Files are memory-mapped, not read. The folder appears as a whole when it is complete.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from weft.data.filtering.duplicates import Hashes, decide_duplicates
from weft.data.filtering.pipeline import KEPT
from weft.data.pairs import Pair
from weft.data.store.block_tokenizer import BLANK, TOO_LONG, TokenizedBlock
from weft.data.store.token_store import CorpusSize, PairStore, TokenStore
from weft.errors import DataError
from weft.files import check_checksum, file_checksum, save_text, with_checksum
from weft.runs.locks import creating_folder, is_empty_folder, part_folder

FORMAT = 2
CHUNK_ROWS = 1 << 20
"""Rows in memory at a time while lengths become offsets."""
MAX_CHECKED_BYTES = 4 << 30
"""A store of at most this size, which takes a second or two to read, is compared with its checksums when opened."""
SIDES = ("source", "target")
AFTER_ALL_STEPS = np.int16(32_000)
"""Stands for the index of a step after all others."""


@dataclass
class RowCounts:
    """Counts of kept and dropped rows of a corpus: `rows` is the sum of those kept and those dropped."""

    rows: int = 0
    kept: int = 0
    dropped: Counter[int] = field(default_factory=Counter)
    """By drop reason: see `weft.data.store.block_tokenizer`."""
    row_errors: Counter[str] = field(default_factory=Counter)
    first_errors: dict[str, str] = field(default_factory=dict)
    examples: dict[int, list[tuple[str, Pair]]] = field(default_factory=dict)

    def add(self, block: TokenizedBlock, examples: int = 0) -> None:
        """Count a block; its duplicates are not known yet."""
        self.rows += len(block.drop_reasons)
        self.row_errors.update(block.row_errors)
        for kind, message in block.first_errors.items():
            self.first_errors.setdefault(kind, message)
        for reason, pairs in block.examples.items():
            held = self.examples.setdefault(reason, [])
            held += pairs[: max(examples - len(held), 0)]

    def finish(self, drop_reasons: np.ndarray) -> None:
        """Count the final drop reasons of all rows."""
        reasons, counts = np.unique(drop_reasons, return_counts=True)
        self.dropped = Counter(dict(zip(reasons.tolist(), counts.tolist(), strict=True)))
        self.kept = self.dropped.pop(KEPT, 0)

    def record(self) -> dict[str, Any]:
        """The counts, for JSON."""
        dropped = {str(reason): count for reason, count in sorted(self.dropped.items())}
        return {"rows": self.rows, "kept": self.kept, "dropped": dropped, "problems": dict(self.row_errors)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RowCounts:
        dropped = Counter({int(reason): count for reason, count in record["dropped"].items()})
        return cls(record["rows"], record["kept"], dropped, Counter(record["problems"]))


def count_rows(
    blocks: Iterable[TokenizedBlock], write: Callable[[TokenizedBlock], None], *, examples: int = 0
) -> tuple[RowCounts, np.ndarray]:
    """Write and count the blocks of a corpus; also which of the rows written are not duplicates of earlier ones."""
    counts = RowCounts()
    all_reasons: list[np.ndarray] = []
    all_hashes: dict[int, list[np.ndarray]] = {}
    for block in blocks:
        if block.fatal is not None:
            raise DataError(block.fatal)
        counts.add(block, examples)
        all_reasons.append(block.drop_reasons)
        for step, values in block.hashes.items():
            all_hashes.setdefault(step, []).append(values)
        write(block)
    reasons = np.concatenate(all_reasons) if all_reasons else np.zeros(0, dtype=np.int16)
    del all_reasons
    final = reasons
    if all_hashes:
        concatenated = {step: np.concatenate(all_hashes.pop(step)) for step in list(all_hashes)}
        hashes = {step: Hashes(values, values != 0) for step, values in concatenated.items()}
        # Pairs too long, or empty once tokenized, were dropped after all steps: they still count as first duplicates.
        dropped_late = (reasons == TOO_LONG) | (reasons == BLANK)
        final = decide_duplicates(np.where(dropped_late, AFTER_ALL_STEPS, reasons), hashes)
        final = np.where(final == AFTER_ALL_STEPS, reasons, final)
    counts.finish(final)
    return counts, final[reasons == KEPT] == KEPT


class SideFiles(NamedTuple):
    """The files of one side while they are written."""

    ids: BinaryIO
    lengths: BinaryIO


class StoreWriter:
    """Writes tokenized blocks, into files of a folder or into memory."""

    def __init__(self, folder: Path | None, vocabulary_sizes: tuple[int, int]) -> None:
        self.folder = folder
        self.dtypes = [np.dtype(np.uint16 if size <= 1 << 16 else np.int32) for size in vocabulary_sizes]
        self.sides = [SideFiles(self._file(f"{side}.ids"), self._file(f".{side}.lengths")) for side in SIDES]
        self.rows = 0
        self.max_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        """The most bytes of a store in memory."""
        self.starts: dict[str, np.ndarray] = {}
        """In memory: where the rows of each side start."""

    def _file(self, name: str) -> BinaryIO:
        return io.BytesIO() if self.folder is None else (self.folder / name).open("w+b")

    def write(self, blocks: Iterable[TokenizedBlock]) -> RowCounts:
        """Write all blocks of a corpus, then remove its duplicates."""
        first_row, offsets = self.rows, [side.ids.tell() for side in self.sides]
        counts, keep = count_rows(blocks, self._write_block)
        if not keep.all():
            self._compact(first_row, offsets, keep)
        return counts

    def _write_block(self, block: TokenizedBlock) -> None:
        for side, dtype, sequences in zip(self.sides, self.dtypes, (block.source, block.target), strict=True):
            side.ids.write(sequences.values.astype(dtype).data)
            side.lengths.write(sequences.lengths.astype(np.int32).data)
        self.rows += len(block.target.lengths)
        if self.folder is None and sum(side.ids.tell() + 4 * self.rows for side in self.sides) > self.max_bytes:
            raise DataError(
                f"data.train: {self.rows:,} tokenized pairs take over {self.max_bytes:,} bytes, half of the memory; "
                "keep them in a folder (data.prepared), or set data.streaming = true"
            )

    def _compact(self, first_row: int, offsets: list[int], keep: np.ndarray) -> None:
        """Remove rows from those written since `first_row`, whose ids start at these offsets."""
        for side, dtype, offset in zip(self.sides, self.dtypes, offsets, strict=True):
            read_offset, write_offset, row = offset, offset, first_row
            for start in range(0, len(keep), CHUNK_ROWS):
                kept = keep[start : start + CHUNK_ROWS]
                side.lengths.seek(4 * (first_row + start))
                lengths = np.frombuffer(side.lengths.read(4 * len(kept)), dtype=np.int32)
                size = int(lengths.sum()) * dtype.itemsize
                side.ids.seek(read_offset)
                ids = np.frombuffer(side.ids.read(size), dtype=dtype)
                read_offset += size
                kept_ids = ids[np.repeat(kept, lengths)]
                side.ids.seek(write_offset)
                side.ids.write(kept_ids.data)
                write_offset += kept_ids.nbytes
                side.lengths.seek(4 * row)
                side.lengths.write(lengths[kept].data)
                row += int(kept.sum())
            side.ids.truncate(write_offset)
            side.ids.seek(write_offset)
            side.lengths.truncate(4 * row)
            side.lengths.seek(4 * row)
        self.rows = first_row + int(keep.sum())

    def finish(self) -> PairStore:
        """The store; its files are complete."""
        stores: list[TokenStore] = []
        tokens, max_lengths = [], []
        for name, side, dtype in zip(SIDES, self.sides, self.dtypes, strict=True):
            total, max_length = self._write_starts(name, side)
            tokens.append(total)
            max_lengths.append(max_length)
            if self.folder is None:
                assert isinstance(side.ids, io.BytesIO)
                stores.append(TokenStore(np.frombuffer(side.ids.getbuffer(), dtype=dtype), self.starts[name]))
            else:
                _sync_and_close(side.ids)
                side.lengths.close()
                (self.folder / f".{name}.lengths").unlink()
                stores.append(_open_side(self.folder, name, dtype, self.rows, total))
        return PairStore(stores[0], stores[1], CorpusSize(self.rows, *tokens, *max_lengths))

    def _write_starts(self, name: str, side: SideFiles) -> tuple[int, int]:
        """Write where each row starts; how many tokens there are, and the length of the longest row."""
        side.lengths.seek(0)
        total, max_length = 0, 1
        file = io.BytesIO() if self.folder is None else (self.folder / f"{name}.starts").open("wb")
        file.write(np.zeros(1, dtype=np.int64).data)
        while data := side.lengths.read(4 * CHUNK_ROWS):
            lengths = np.frombuffer(data, dtype=np.int32)
            ends = np.cumsum(lengths, dtype=np.int64) + total
            file.write(ends.data)
            total, max_length = int(ends[-1]), max(max_length, int(lengths.max()))
        if isinstance(file, io.BytesIO):
            self.starts[name] = np.frombuffer(file.getbuffer(), dtype=np.int64)
        else:
            _sync_and_close(file)
        return total, max_length


def _sync_and_close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _open_side(folder: Path, side: str, dtype: np.dtype[Any], rows: int, tokens: int) -> TokenStore:
    """A side of a store on disk."""
    expected_sizes = {f"{side}.ids": tokens * dtype.itemsize, f"{side}.starts": 8 * (rows + 1)}
    for name, expected in expected_sizes.items():
        size = (folder / name).stat().st_size if (folder / name).is_file() else -1
        if size != expected:
            what = "missing" if size < 0 else f"damaged: {size} bytes, expected {expected}"
            raise DataError(f"{folder / name}: {what}; remove {folder} and prepare it again")
    starts = np.memmap(folder / f"{side}.starts", dtype=np.int64, mode="r")
    ids = np.memmap(folder / f"{side}.ids", dtype=dtype, mode="r") if tokens else np.zeros(0, dtype=dtype)
    return TokenStore(np.asarray(ids), np.asarray(starts))  # plain arrays of the same memory: faster to index


def _check_files(folder: Path, checksums: dict[str, str]) -> None:
    """Refuse a store that lacks a file or in which a bit has changed; one too large to read quickly is trusted."""
    files = [folder / Path(name).name for name in checksums]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: missing; remove {folder} and prepare it again")
    if sum(file.stat().st_size for file in files) <= MAX_CHECKED_BYTES:
        for file in files:
            if file_checksum(file) != checksums[file.name]:
                raise DataError(
                    f"{file}: damaged (its content does not match its checksum); remove {folder} and prepare it again"
                )


@dataclass(frozen=True)
class PreparedFolder:
    """An open store on disk."""

    path: Path
    pairs: PairStore
    about: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> PreparedFolder:
        file = path / "about.json"
        try:
            about = json.loads(file.read_text("utf-8"))
            version = about["weft_prepared"]
            if version != FORMAT:
                age = "a newer" if version > FORMAT else "an older"
                raise DataError(f"{path}: prepared by {age} weft (format {version}, this one reads {FORMAT})")
            corpus_size = CorpusSize(**about["corpus_size"])
            dtypes = [np.dtype(about["ids"][side]) for side in SIDES]
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(f"{path}: not a prepared corpus (it has no about.json); see `weft data prepare`") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{file}: damaged; remove {path} and prepare it again") from None
        tokens = (corpus_size.source_tokens, corpus_size.target_tokens)
        source, target = (
            _open_side(path, side, dtype, corpus_size.pairs, count)
            for side, dtype, count in zip(SIDES, dtypes, tokens, strict=True)
        )
        check_checksum(about, where=str(file), error=DataError)
        _check_files(path, about.get("files", {}))
        return cls(path, PairStore(source, target, corpus_size), about)

    @classmethod
    def create(
        cls, path: Path, vocabulary_sizes: tuple[int, int], fill: Callable[[Path, StoreWriter], dict[str, Any]]
    ) -> PreparedFolder:
        """A new one; `fill` writes it and returns what else about.json is to contain. The caller holds its lock."""
        if path.exists() and not is_empty_folder(path):
            raise DataError(f"{path}: already exists; remove it, or choose another folder")
        try:
            with creating_folder(path) as temporary:
                writer = StoreWriter(temporary, vocabulary_sizes)
                additions = fill(temporary, writer)
                pairs = writer.finish()
                ids = {side: dtype.name for side, dtype in zip(SIDES, writer.dtypes, strict=True)}
                about = {"weft_prepared": FORMAT, "corpus_size": pairs.corpus_size._asdict(), "ids": ids, **additions}
                about["files"] = {
                    file.name: file_checksum(file) for file in sorted(temporary.iterdir()) if file.name[0] != "."
                }
                save_text(temporary / "about.json", json.dumps(with_checksum(about), indent=1, ensure_ascii=False))
        except OSError as error:
            failed = None if error.filename is None else Path(error.filename)
            if failed and path.resolve() != failed and part_folder(path) not in (failed, *failed.parents):
                raise  # of a file of the corpus
            raise DataError(f"{path}: cannot write: {error.strerror or error}; nothing was kept") from None
        return cls.open(path)
