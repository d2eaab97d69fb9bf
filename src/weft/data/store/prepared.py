"""The token store on disk: a corpus prepared once, opened in no time by any number of runs.

    about.json                 format, what it was made of, its parts, its corpus_size, what was left out
    tokenizer*.json            what its ids mean
    source.ids, target.ids     all sequences end to end, 2 bytes an id (4 where there are more than 65,536)
    source.starts, ...         where each begins, 8 bytes each, and where the last one ends

Files are mapped, not read. The folder appears as a whole when it is complete.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from weft.data.filtering.duplicates import decide_duplicates
from weft.data.pairs import Pair
from weft.data.store.block_tokenizer import BLANK, KEPT, TOO_LONG, TokenizedBlock
from weft.data.store.token_store import CorpusSize, PairStore, TokenStore
from weft.errors import DataError
from weft.files import save_text

FORMAT = 2
CHUNK = 1 << 20
"""Rows that are in memory at a time while lengths become places."""
SIDES = ("source", "target")
LATE = np.int16(32_000)
"""A step after all others."""


@dataclass
class RowCounts:
    """What became of the rows of a corpus: those kept and those left out are all there were."""

    rows: int = 0
    kept: int = 0
    dropped: Counter[int] = field(default_factory=Counter)
    """By drop_reason: see `weft.data.store.block_tokenizer`."""
    problems: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    examples: dict[int, list[tuple[str, Pair]]] = field(default_factory=dict)

    def add(self, piece: TokenizedBlock, examples: int = 0) -> None:
        """Count a piece; duplicates are not known yet."""
        self.rows += len(piece.drop_reasons)
        self.problems.update(piece.problems)
        for kind, message in piece.first.items():
            self.first.setdefault(kind, message)
        for drop_reason, found in piece.examples.items():
            held = self.examples.setdefault(drop_reason, [])
            held += found[: max(examples - len(held), 0)]

    def settle(self, drop_reasons: np.ndarray) -> None:
        """Take over what finally became of all rows."""
        found, times = np.unique(drop_reasons, return_counts=True)
        self.dropped = Counter(dict(zip(found.tolist(), times.tolist(), strict=True)))
        self.kept = self.dropped.pop(KEPT, 0)

    def record(self) -> dict[str, Any]:
        dropped = {str(drop_reason): times for drop_reason, times in sorted(self.dropped.items())}
        return {"rows": self.rows, "kept": self.kept, "dropped": dropped, "problems": dict(self.problems)}

    @classmethod
    def of(cls, record: dict[str, Any]) -> RowCounts:
        dropped = Counter({int(drop_reason): times for drop_reason, times in record["dropped"].items()})
        return cls(record["rows"], record["kept"], dropped, Counter(record["problems"]))


def count_rows(
    pieces: Iterable[TokenizedBlock], take: Callable[[TokenizedBlock], None], *, examples: int = 0
) -> tuple[RowCounts, np.ndarray]:
    """Hand on the pieces of a corpus and count them; which of the rows handed on are no duplicates of earlier ones."""
    counts = RowCounts()
    many: list[np.ndarray] = []
    hashes: dict[int, list[np.ndarray]] = {}
    for piece in pieces:
        if piece.error is not None:
            raise DataError(piece.error)
        counts.add(piece, examples)
        many.append(piece.drop_reasons)
        for step, found in piece.hashes.items():
            hashes.setdefault(step, []).append(found)
        take(piece)
    drop_reasons = np.concatenate(many) if many else np.zeros(0, dtype=np.int16)
    del many
    settled = drop_reasons
    if hashes:
        numbers = {step: np.concatenate(hashes.pop(step)) for step in list(hashes)}
        known = {step: found != 0 for step, found in numbers.items()}
        # What is too long, or blank once it is cut, was dropped after all steps: it counts as a duplicate before.
        late = np.where((drop_reasons == TOO_LONG) | (drop_reasons == BLANK), LATE, drop_reasons)
        settled = decide_duplicates(late, numbers, known)
        settled = np.where(settled == LATE, drop_reasons, settled)
    counts.settle(settled)
    return counts, settled[drop_reasons == KEPT] == KEPT


class Written(NamedTuple):
    """One side while it is written."""

    ids: BinaryIO
    lengths: BinaryIO


class StoreWriter:
    """Writes pieces one after the other, into files of a folder or into memory."""

    def __init__(self, folder: Path | None, sizes: tuple[int, int]) -> None:
        self.folder = folder
        self.kinds = [np.dtype(np.uint16 if size <= 1 << 16 else np.int32) for size in sizes]
        self.sides = [Written(self._file(f"{side}.ids"), self._file(f".{side}.lengths")) for side in SIDES]
        self.rows = 0
        self.starts: dict[str, np.ndarray] = {}
        """In memory: where the rows of each side begin."""

    def _file(self, name: str) -> BinaryIO:
        return io.BytesIO() if self.folder is None else (self.folder / name).open("w+b")

    def write(self, pieces: Iterable[TokenizedBlock]) -> RowCounts:
        """A corpus: all its pieces, then without its duplicates."""
        first, places = self.rows, [side.ids.tell() for side in self.sides]
        counts, keep = count_rows(pieces, self._put)
        if not keep.all():
            self._compact(first, places, keep)
        return counts

    def _put(self, piece: TokenizedBlock) -> None:
        for side, kind, ids in zip(self.sides, self.kinds, (piece.source, piece.target), strict=True):
            side.ids.write(ids.values.astype(kind).data)
            side.lengths.write(ids.lengths.astype(np.int32).data)
        self.rows += len(piece.target.lengths)

    def _compact(self, first: int, places: list[int], keep: np.ndarray) -> None:
        """Take rows out of what was written since row ``first``; ``places``: where its ids begin."""
        for side, kind, begun in zip(self.sides, self.kinds, places, strict=True):
            read, write, row = begun, begun, first
            for start in range(0, len(keep), CHUNK):
                kept = keep[start : start + CHUNK]
                side.lengths.seek(4 * (first + start))
                lengths = np.frombuffer(side.lengths.read(4 * len(kept)), dtype=np.int32)
                size = int(lengths.sum()) * kind.itemsize
                side.ids.seek(read)
                values = np.frombuffer(side.ids.read(size), dtype=kind)
                read += size
                left = values[np.repeat(kept, lengths)]
                side.ids.seek(write)
                side.ids.write(left.data)
                write += left.nbytes
                side.lengths.seek(4 * row)
                side.lengths.write(lengths[kept].data)
                row += int(kept.sum())
            side.ids.truncate(write)
            side.ids.seek(write)
            side.lengths.truncate(4 * row)
            side.lengths.seek(4 * row)
        self.rows = first + int(keep.sum())

    def finish(self) -> PairStore:
        """The store; its files are complete."""
        found: list[TokenStore] = []
        tokens, longest = [], []
        for name, side, kind in zip(SIDES, self.sides, self.kinds, strict=True):
            total, most = self._starts(name, side)
            tokens.append(total)
            longest.append(most)
            if self.folder is None:
                assert isinstance(side.ids, io.BytesIO)
                found.append(TokenStore(np.frombuffer(side.ids.getbuffer(), dtype=kind), self.starts[name]))
            else:
                side.ids.flush()
                os.fsync(side.ids.fileno())
                side.ids.close()
                side.lengths.close()
                (self.folder / f".{name}.lengths").unlink()
                found.append(_mapped(self.folder, name, kind, self.rows, total))
        return PairStore(found[0], found[1], CorpusSize(self.rows, tokens[0], tokens[1], longest[0], longest[1]))

    def _starts(self, name: str, side: Written) -> tuple[int, int]:
        """Write where each row begins; how many tokens there are, and the longest row."""
        side.lengths.seek(0)
        total, longest = 0, 1
        out = io.BytesIO() if self.folder is None else (self.folder / f"{name}.starts").open("wb")
        out.write(np.zeros(1, dtype=np.int64).data)
        while block := side.lengths.read(4 * CHUNK):
            lengths = np.frombuffer(block, dtype=np.int32)
            ends = np.cumsum(lengths, dtype=np.int64) + total
            out.write(ends.data)
            total, longest = int(ends[-1]), max(longest, int(lengths.max()))
        if isinstance(out, io.BytesIO):
            self.starts[name] = np.frombuffer(out.getbuffer(), dtype=np.int64)
        else:
            out.flush()
            os.fsync(out.fileno())
            out.close()
        return total, longest


def _mapped(folder: Path, side: str, kind: np.dtype[Any], rows: int, tokens: int) -> TokenStore:
    """A side of a store on disk."""
    sizes = {f"{side}.ids": tokens * kind.itemsize, f"{side}.starts": 8 * (rows + 1)}
    for name, size in sizes.items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else -1
        if found != size:
            what = "missing" if found < 0 else f"damaged: {found} bytes, expected {size}"
            raise DataError(f"{folder / name}: {what}; remove {folder} and prepare it again")
    starts = np.memmap(folder / f"{side}.starts", dtype=np.int64, mode="r")
    values = np.memmap(folder / f"{side}.ids", dtype=kind, mode="r") if tokens else np.zeros(0, dtype=kind)
    return TokenStore(np.asarray(values), np.asarray(starts))  # plain arrays of the same memory: quicker to index


@dataclass(frozen=True)
class PreparedFolder:
    """A store on disk, open."""

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
            kinds = [np.dtype(about["ids"][side]) for side in SIDES]
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(f"{path}: not a prepared corpus (it has no about.json); see `weft data prepare`") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{file}: damaged; remove {path} and prepare it again") from None
        tokens = (corpus_size.source_tokens, corpus_size.target_tokens)
        source, target = (
            _mapped(path, side, kind, corpus_size.pairs, count)
            for side, kind, count in zip(SIDES, kinds, tokens, strict=True)
        )
        return cls(path, PairStore(source, target, corpus_size), about)

    @classmethod
    def create(
        cls, path: Path, sizes: tuple[int, int], fill: Callable[[Path, StoreWriter], dict[str, Any]]
    ) -> PreparedFolder:
        """A new one; ``fill`` writes it and says what else is to be known about it."""
        if path.exists():
            raise DataError(f"{path}: exists already; remove it, or choose another folder")
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.mkdir()
            writer = StoreWriter(aside, sizes)
            more = fill(aside, writer)
            pairs = writer.finish()
            ids = {side: kind.name for side, kind in zip(SIDES, writer.kinds, strict=True)}
            about = {"weft_prepared": FORMAT, "corpus_size": pairs.corpus_size._asdict(), "ids": ids, **more}
            save_text(aside / "about.json", json.dumps(about, indent=1, ensure_ascii=False))
            aside.rename(path)
        except OSError as error:
            raise DataError(f"{path}: cannot write: {error.strerror or error}") from None
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return cls.open(path)
