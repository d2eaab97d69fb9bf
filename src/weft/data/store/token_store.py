"""A tokenized corpus: token sequences end to end in one array, in memory or in a memory-mapped file.

Tokenized blocks are written by a `StoreWriter` and become a `PairStore`, whose rows come out as batches.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import numpy as np
import torch

from weft.data.pairs import Pair
from weft.data.store.block_tokenizer import RowCounts, TokenizedBlock, count_rows
from weft.errors import DataError
from weft.ragged import Layout, Ragged, budget_slices

if TYPE_CHECKING:
    from weft.text.copying import SentenceIds
    from weft.text.tokenizer import Tokenizers

LONG_ROW = 1 << 9
"""Ids of a row from which it is copied as a whole, not id by id."""
CHUNK_ROWS = 1 << 20
"""Rows in memory at a time while lengths become offsets."""
TOKEN_BYTES = 256
"""Bytes of an array (`weft.packed`) that count as a token: a model makes a state of about so many pixels."""
SIDES = ("source", "target")

SourceRole = Literal["text", "prompt", "none"]
"""The role of a source: a separate sequence, closed by the end token; the beginning of the target's sequence (a
prompt); or none (a language model)."""


class TokenStore:
    """Sequences of ids in one flat array; any rows come out as a Ragged without a Python loop over tokens.

    Row r is ``values[offsets[r]:offsets[r + 1]]``. Neither array is read as a whole unless all `lengths` are needed, so
    a store of memory-mapped files opens instantly whatever its size.
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> TokenStore:
        rows = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        return cls(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of all rows."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.offsets[rows + 1] - self.offsets[rows])

    def values_of(self, rows: np.ndarray) -> np.ndarray:
        """The ids of the given rows, end to end."""
        starts, lengths = self.offsets[rows], self.lengths_of(rows)
        if len(rows) and lengths.mean() > LONG_ROW:
            return np.concatenate(
                [self.values[start : start + count] for start, count in zip(starts, lengths, strict=True)]
            )
        ends = np.cumsum(lengths)
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
        return np.asarray(self.values[positions])

    def first(self, count: int) -> TokenStore:
        """The first ``count`` rows; all if there are fewer."""
        return TokenStore(self.values, self.offsets[: count + 1])

    def gather(self, rows: np.ndarray) -> Ragged:
        """The given rows as a batch; bytes (`weft.packed`) stay bytes."""
        values = self.values_of(rows)
        ids = torch.from_numpy(values if values.dtype == np.uint8 else values.astype(np.int64))
        return Ragged(ids, Layout(torch.from_numpy(self.lengths_of(rows))))


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """The start of each row, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)])


class Batch(NamedTuple):
    """Pairs that one step trains on together."""

    source: Ragged
    """Rows end with the end token; empty rows for a language model, or prompts without an end token."""
    target: Ragged
    """Rows end with the end token; what the decoder must produce."""

    def to(self, device: torch.device | str) -> Batch:
        return Batch(self.source.to(device), self.target.to(device))

    def divided(self, parts: int) -> list[Batch]:
        """The rows, which are sorted by length, dealt out to smaller batches."""
        rows = torch.arange(self.target.rows)
        dealt = [rows[first::parts] for first in range(min(parts, len(rows)))]
        return [Batch(self.source.select(part), self.target.select(part)) for part in dealt]


class CorpusSize(NamedTuple):
    """The size of a corpus, on which the shapes of batches depend."""

    pairs: int
    source_tokens: int
    target_tokens: int
    max_source_length: int
    max_target_length: int

    @property
    def mean_length(self) -> float:
        """Tokens per pair, on the side that has more."""
        return max(self.source_tokens, self.target_tokens, 1) / max(self.pairs, 1)


@dataclass(frozen=True)
class PairStore:
    """A tokenized parallel corpus."""

    source: TokenStore
    target: TokenStore
    stored_size: CorpusSize | None = None
    """The stored size of the corpus; None: it is counted on demand."""

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def corpus_size(self) -> CorpusSize:
        if self.stored_size is not None:
            return self.stored_size
        sides = (self.source.lengths, self.target.lengths)
        return CorpusSize(
            len(self), *(int(side.sum()) for side in sides), *(int(side.max(initial=1)) for side in sides)
        )

    def first(self, count: int) -> PairStore:
        """The first ``count`` pairs; all if there are fewer."""
        return PairStore(self.source.first(count), self.target.first(count))

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(self.source.gather(rows), self.target.gather(rows))


def length_sorted_batches(pairs: PairStore, budget: int) -> list[np.ndarray]:
    """The rows of every batch of a single pass: sorted by length, at most ``budget`` tokens on either side."""
    sources = budget * (TOKEN_BYTES if pairs.source.values.dtype == np.uint8 else 1)
    return split_by_budget(np.lexsort((pairs.source.lengths, pairs.target.lengths)), pairs, (sources, budget))


def split_by_budget(rows: np.ndarray, pairs: PairStore, budgets: Sequence[int]) -> list[np.ndarray]:
    """Consecutive rows, as many together as the budgets of source and target allow, at least one."""
    lengths = [side.lengths_of(rows) for side in (pairs.source, pairs.target)]
    return [rows[part] for part in budget_slices(lengths, budgets)]


def encode_pairs(
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    sources: SourceRole = "text",
    max_length: int | None = None,
    sentence_ids: SentenceIds | None = None,
) -> PairStore:
    """Text pairs as token ids in memory, for validation and scoring; a training corpus goes through `prepare`.

    With ``max_length``, pairs with an empty or longer side are left out; without, none is.
    ``sentence_ids``: ids for tokens outside the vocabularies, for a model that copies.
    """
    if tokenizers.reads_arrays:
        return _encode_arrays(pairs, tokenizers, max_length)
    reads = sources != "none"
    source_ids = tokenizers.source.encode_batch([pair.source for pair in pairs]) if reads else [[] for _ in pairs]
    target_ids = tokenizers.target.encode_batch([pair.target for pair in pairs])
    if sentence_ids is not None:
        target_ids = [
            sentence_ids.target(pair.target, ids, pair.source) for pair, ids in zip(pairs, target_ids, strict=True)
        ]
        source_ids = [sentence_ids.source(pair.source, ids) for pair, ids in zip(pairs, source_ids, strict=True)]
    kept = [
        (source, target)
        for source, target in zip(source_ids, target_ids, strict=True)
        if max_length is None or (target and (source or not reads) and max(len(source), len(target)) <= max_length)
    ]
    frame = tokenizers.frame
    return PairStore(
        TokenStore.of(frame.source(source) if sources == "text" else source for source, _ in kept),
        TokenStore.of(frame.target(target) for _, target in kept),
    )


def _encode_arrays(pairs: Sequence[Pair], tokenizers: Tokenizers, max_length: int | None) -> PairStore:
    """`encode_pairs` of pairs whose sources are arrays: their size is limited where they are read."""
    target_ids = tokenizers.target.encode_batch([pair.target for pair in pairs])
    is_kept = [max_length is None or 0 < len(ids) <= max_length for ids in target_ids]
    bytes_N, lengths = tokenizers.source.encode_arrays([pair.source for pair in compress(pairs, is_kept)])
    targets = TokenStore.of(tokenizers.frame.target(ids) for ids in compress(target_ids, is_kept))
    return PairStore(TokenStore(bytes_N, offsets_of(lengths)), targets)


class SideFiles(NamedTuple):
    """The files of one side while they are written."""

    ids: BinaryIO
    lengths: BinaryIO


class StoreWriter:
    """Writes tokenized blocks, into files of a folder or into memory."""

    def __init__(self, folder: Path | None, vocabulary_sizes: tuple[int, int]) -> None:
        """``vocabulary_sizes``: 0 for a side of packed arrays, whose rows are bytes."""
        self.folder = folder
        self.dtypes = [
            np.dtype(np.int32 if size > 1 << 16 else np.uint16 if size else np.uint8) for size in vocabulary_sizes
        ]
        self.sides = [SideFiles(self._file(f"{side}.ids"), self._file(f".{side}.lengths")) for side in SIDES]
        self.rows = 0
        self.max_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        """The most bytes of a store in memory."""
        self.starts: dict[str, np.ndarray] = {}
        """The starts of the rows of each side, in memory."""

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
                stores.append(open_side(self.folder, name, dtype, self.rows, total))
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


def open_side(folder: Path, side: str, dtype: np.dtype[Any], rows: int, tokens: int) -> TokenStore:
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
