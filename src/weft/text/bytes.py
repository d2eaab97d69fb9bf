"""Byte tokenizer: one id for each byte of the UTF-8 encoding. Nothing is learned and nothing is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from weft.errors import VocabularyError
from weft.text.id_rows import TokenArrays
from weft.text.specials import SPECIALS, UNKNOWN_TEXT, visible
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import FIRST_SYMBOL_ID, LearningOptions, check_ids, check_lengths, check_text, save_tokenizer


class ByteTokenizer:
    """One id for each byte of the UTF-8 encoding: ids 3 to 258."""

    kind = "byte"
    supports_dropout = False
    size = FIRST_SYMBOL_ID + 256

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        for setting in ("normalize", "lowercase", "symbols", "protect"):
            if getattr(options, setting) != getattr(LearningOptions, setting):
                raise VocabularyError(f"{setting}: bytes are not changed; choose another kind, such as character")
        if options.size is not None and options.size < cls.size:
            raise VocabularyError(
                f"vocabulary: size {options.size} is too small; the least size for bytes is {cls.size}"
            )
        return cls()

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        return self

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return [FIRST_SYMBOL_ID + value for value in text.encode("utf-8")]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        check_lengths(texts)
        try:
            rows = [text.encode("utf-8") for text in texts]
        except UnicodeEncodeError:
            for text in texts:
                check_text(text)
            raise
        ids = np.frombuffer(b"".join(rows), np.uint8).astype(np.int32) + np.int32(FIRST_SYMBOL_ID)
        return ids, np.fromiter(map(len, rows), np.int64, len(rows))

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        return ["normalization: none"]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; invalid UTF-8 becomes U+FFFD, as with `bytes.decode(errors="replace")`."""
        return decode_bytes(self._bytes(ids))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < FIRST_SYMBOL_ID else show_byte(id - FIRST_SYMBOL_ID) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The span of the character that each byte belongs to."""
        return spans_of_bytes(self._bytes(ids))

    def _bytes(self, ids: Sequence[int]) -> list[bytes]:
        check_ids(ids, self.size)
        return [_BYTES[id] for id in ids]

    def save(self, path: Path) -> None:
        save_tokenizer(path, self.kind)

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        return cls()


_BYTES = (UNKNOWN_TEXT.encode(), b"", b"", *(bytes([value]) for value in range(256)))


def show_byte(value: int) -> str:
    """A byte for display: its ASCII character, or ``<0xC3>``."""
    return visible(chr(value)) if 32 <= value < 127 else f"<0x{value:02X}>"
