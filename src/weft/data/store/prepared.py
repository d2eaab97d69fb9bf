"""A token store in a folder: a corpus prepared once, opened instantly by any number of runs.

    about.json                 format, what it was made of, its parts, its size, what was dropped, checksums
    tokenizer*.json            what its ids mean
    source.ids, target.ids     all sequences end to end, 2 bytes per id (4 for vocabularies above 65,536; 1 of
                               packed arrays)
    source.starts, ...         where each sequence starts, 8 bytes each, and where the last one ends
    fingerprints.bin           hashes of the pairs (`weft.data.fingerprints`)

Files are memory-mapped, not read. The folder appears as a whole when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.store.token_store import SIDES, CorpusSize, PairStore, StoreWriter, open_side
from weft.errors import DataError
from weft.files import check_checksum, file_checksum, save_text, with_checksum
from weft.runs.locks import creating_folder, is_empty_folder, part_folder

FORMAT = 2
MAX_CHECKED_BYTES = 4 << 30
"""A store of at most this size, which takes a second or two to read, is compared with its checksums when opened."""


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
            open_side(path, side, dtype, corpus_size.pairs, count)
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
