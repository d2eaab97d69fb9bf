"""Tokenizers of pretrained models that are not one file: SentencePiece with a table of ids, and bytes with sentinels.

Both have the ids of the original. A `tokenizer.json` is `weft.text.external_engines.TokenizersEngine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.text.specials import UNKNOWN_TEXT

LANGUAGE_CODE = re.compile(r">>.*?<<", re.DOTALL)
"""The target-language code that OPUS-MT models read before a source."""


@dataclass(frozen=True)
class PieceTable:
    """The id of each piece, and the tokens that are not pieces."""

    names: tuple[str, ...]
    """The token of every id."""
    unknown: int
    special: frozenset[int] = frozenset()
    """Ids that no text ever becomes, unless they are among the added ones."""
    added: frozenset[int] = frozenset()
    """Ids that are found in text by their names, as one token."""
    leading_code: bool = False
    """Whether a ``>>fra<<`` at the beginning of a text is one token."""

    def to_json(self) -> dict[str, Any]:
        special, added = sorted(self.special), sorted(self.added)
        fields = {"names": self.names, "unknown": self.unknown, "special": special, "added": added}
        return {**fields, "leading_code": self.leading_code}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> PieceTable:
        """Read the output of `to_json`; `ValueError` if it is something else."""
        names, unknown, leading_code = content["names"], content["unknown"], content["leading_code"]
        special, added = content["special"], content["added"]
        ids = [unknown, *special, *added]
        if not all(isinstance(name, str) for name in names) or not isinstance(leading_code, bool):
            raise ValueError("its names are not texts")
        if not all(isinstance(id, int) and 0 <= id < len(names) for id in ids):
            raise ValueError("an id has no name")
        return cls(tuple(names), unknown, frozenset(special), frozenset(added), leading_code)


class PieceEngine:
    """A SentencePiece model whose pieces are looked up in a table, instead of having SentencePiece's own ids."""

    source = "pieces"

    def __init__(self, model: bytes, table: PieceTable) -> None:
        import sentencepiece

        self.model = model
        self.table = table
        self._library = sentencepiece.SentencePieceProcessor(model_proto=model)
        unknown = self._library.unk_id()
        self._unknown_piece = str(self._library.id_to_piece(unknown))
        self._surface = str(self._library.decode([unknown])).strip()
        names = enumerate(table.names)
        self._ids = {name: id for id, name in reversed([*names]) if id not in table.special and id != table.unknown}

    def ids(self) -> list[int]:
        return list(range(len(self.table.names)))

    @cached_property
    def _added(self) -> tuple[re.Pattern[str], dict[str, int]] | None:
        """An expression that finds the added tokens, longest first, and their ids."""
        if not self.table.added:
            return None
        ids = {self.table.names[id]: id for id in sorted(self.table.added)}
        names = sorted(ids, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names))})"), ids

    def encode(self, texts: list[str]) -> list[list[int]]:
        if self._added is not None or self.table.leading_code:
            return [self._encode_parts(text) for text in texts]
        return [self._look_up(pieces) for pieces in self._library.encode(texts, out_type=str)] if texts else []

    def _encode_parts(self, text: str) -> list[int]:
        """The ids of a text in which some tokens are found by their names."""
        ids: list[int] = []
        code = LANGUAGE_CODE.match(text) if self.table.leading_code else None
        if code is not None:
            ids.append(self._ids.get(code[0], self.table.unknown))
            text = text[code.end() :]
        if self._added is None:
            return ids + self._look_up(self._library.encode(text, out_type=str))
        expression, added = self._added
        for part in expression.split(text):
            ids += [added[part]] if part in added else self._look_up(self._library.encode(part, out_type=str))
        return ids

    def _look_up(self, pieces: Iterable[str]) -> list[int]:
        get_id, unknown = self._ids.get, self.table.unknown
        return [get_id(piece, unknown) for piece in pieces]

    def decode(self, ids: list[int]) -> str:
        """The text, stripped: SentencePiece marks its first word by a space, and a model may write one at its end."""
        unknown, names = self.table.unknown, self.table.names
        pieces = [self._unknown_piece if id == unknown else names[id] for id in ids]
        text = str(self._library.decode(pieces)).replace("▁", " ").strip()
        if unknown not in ids:
            return text
        if UNKNOWN_TEXT in self._surface:
            return text.replace(f" {UNKNOWN_TEXT} ", UNKNOWN_TEXT)
        return text.replace(self._surface, UNKNOWN_TEXT) if self._surface else text

    def token(self, id: int) -> str:
        return self.table.names[id].replace("▁", " ").strip(" ")


class ByteEngine:
    """Bytes with the ids 3 to 258 after ``<pad>``, ``</s>`` and ``<unk>``, then sentinels   Xue et al. 2022 (ByT5)."""

    source = "bytes"
    FIRST = 3
    SENTINEL = re.compile(r"(<extra_id_(?:0|[1-9][0-9]{0,5})>)")
    special_ids = (2, 0, 1)

    def __init__(self, sentinels: int) -> None:
        self.sentinels = sentinels
        names = [f"<extra_id_{number}>" for number in range(sentinels)]
        self._sentinel_ids = {name: self.FIRST + 256 + number for number, name in enumerate(names)}

    def ids(self) -> list[int]:
        return list(range(self.FIRST + 256 + self.sentinels))

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self._encode_text(text) for text in texts]

    def _encode_text(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self.SENTINEL.split(text):
            sentinel = self._sentinel_ids.get(part)
            ids += [self.FIRST + value for value in part.encode("utf-8")] if sentinel is None else [sentinel]
        return ids

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token adds to a text."""
        if id < self.FIRST:
            return UNKNOWN_TEXT.encode() if id == 2 else b""
        if id < self.FIRST + 256:
            return bytes([id - self.FIRST])
        return f"<extra_id_{id - self.FIRST - 256}>".encode()

    def decode(self, ids: Sequence[int]) -> str:
        from weft.text.utf8 import decode_bytes

        return decode_bytes([self.token_bytes(id) for id in ids])

    def token(self, id: int) -> str:
        from weft.text.bytes import show_byte

        if self.FIRST <= id < self.FIRST + 256:
            return show_byte(id - self.FIRST)
        return self.token_bytes(id).decode()
