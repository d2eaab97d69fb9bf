"""Tokenizers that weft did not learn, with their own ids: in their own library, or bytes.

TokenizersEngine      a `tokenizer.json`
SentencePieceEngine   a SentencePiece model
PieceEngine           SentencePiece with another table of ids, of a pretrained model
ByteEngine            bytes with sentinels, of a pretrained model
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tokenizers

from weft.text.pretokenization import byte_alphabet
from weft.text.specials import UNKNOWN_TEXT

BEGIN_NAMES = ("<s>", "<bos>", "[BOS]", "[CLS]", "<|begin_of_text|>", "<|startoftext|>")
END_NAMES = ("</s>", "<eos>", "[EOS]", "[SEP]", "<|end_of_text|>", "<|endoftext|>")
LANGUAGE_CODE = re.compile(r">>.*?<<", re.DOTALL)
"""The target-language code that OPUS-MT models read before a source."""


class TokenizersEngine:
    """A `tokenizer.json`."""

    source = "tokenizers"

    def __init__(self, content: str, special: tuple[int, int, int] | None = None) -> None:
        """``special``: the ids of the unknown, begin and end tokens; None: as the file says."""
        self._library = tokenizers.Tokenizer.from_str(content)
        self._library.no_truncation()
        self._library.no_padding()
        self._vocabulary: dict[str, int] = self._library.get_vocab(with_added_tokens=True)
        self._special = special
        self._special_names = [str(self._library.id_to_token(id)) for id in self.special_ids() if id is not None]
        unknown = self.special_ids()[0]
        self._unknown: str | None = None if unknown is None else self._library.id_to_token(unknown)

    @cached_property
    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.content())
        return content

    def content(self) -> str:
        return str(self._library.to_str())

    def ids(self) -> list[int]:
        return list(set(self._vocabulary.values()))

    def special_ids(self) -> tuple[int | None, int | None, int | None]:
        if self._special is not None:
            return self._special
        model = self._content["model"]
        name = model.get("unk_token")
        if model.get("unk_id") is not None:
            name = model["vocab"][model["unk_id"]][0]
        unknown = self._vocabulary.get(name)
        begin, end = None, None
        for before, after in _tokens_around(self._content.get("post_processor")):
            begin = self._vocabulary.get(before or "", begin)
            end = self._vocabulary.get(after or "", end)
        if begin is None:
            begin = self._first_known(BEGIN_NAMES)
        if end is None:
            end = self._first_known(END_NAMES)
        if begin == end:
            begin = None
        return (None if unknown in (begin, end) else unknown), begin, end

    def names(self) -> dict[str, int]:
        """The id of every token, by its name in the file."""
        return self._vocabulary

    def special_names(self) -> list[str]:
        """The tokens that the file marks as special."""
        return [token["content"] for token in self._content.get("added_tokens", []) if token["special"]]

    def _first_known(self, names: Sequence[str]) -> int | None:
        return next((self._vocabulary[name] for name in names if name in self._vocabulary), None)

    @cached_property
    def _literal(self) -> tokenizers.Tokenizer:
        """The library's tokenizer for texts that spell a special token."""
        library = tokenizers.Tokenizer.from_str(self.content())
        library.encode_special_tokens = True
        return library

    def encode(self, texts: list[str]) -> list[list[int]]:
        encoded = [encoding.ids for encoding in self._library.encode_batch_fast(texts, add_special_tokens=False)]
        for row, text in enumerate(texts):
            if any(name in text for name in self._special_names):
                encoded[row] = self._literal.encode(text, add_special_tokens=False).ids
        return encoded

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids, skip_special_tokens=False))
        return text.replace(self._unknown, UNKNOWN_TEXT) if self._unknown and self._unknown in text else text

    def token(self, id: int) -> str:
        token = str(self._library.id_to_token(id))
        if self._has_decoder("ByteLevel"):
            byte_values = {character: value for value, character in enumerate(byte_alphabet())}
            if all(character in byte_values for character in token):
                token = bytes(byte_values[character] for character in token).decode("utf-8", errors="replace")
        prefix = self._content["model"].get("continuing_subword_prefix")
        suffix = self._content["model"].get("end_of_word_suffix")
        token = token.removeprefix(prefix or "").removesuffix(suffix or "") or token
        return (token.replace("▁", " ") if self._has_decoder("Metaspace") or "▁" in token else token).strip(" ")

    def _has_decoder(self, kind: str) -> bool:
        decoder = self._content.get("decoder") or {}
        return any(part.get("type") == kind for part in [decoder, *decoder.get("decoders", [])])


def _tokens_around(processor: dict[str, Any] | None) -> Iterator[tuple[str | None, str | None]]:
    """The tokens that a post-processor puts before and after a text."""
    kind = (processor or {}).get("type")
    if processor is None or kind is None:
        return
    if kind == "Sequence":
        for part in processor["processors"]:
            yield from _tokens_around(part)
    elif kind == "TemplateProcessing":
        names = [part["SpecialToken"]["id"] if "SpecialToken" in part else None for part in processor["single"]]
        text = names.index(None) if None in names else len(names)
        yield (names[0] if text > 0 else None), (names[-1] if text + 1 < len(names) else None)
    elif "cls" in processor and "sep" in processor:
        yield processor["cls"][0], processor["sep"][0]


class SentencePieceEngine:
    """A SentencePiece model."""

    source = "sentencepiece"

    def __init__(self, content: bytes) -> None:
        import sentencepiece

        if not content:
            raise ValueError("it is empty")
        self._content = content
        self._library = sentencepiece.SentencePieceProcessor(model_proto=content)
        self._surface = str(self._library.decode([self._library.unk_id()])).strip()

    def content(self) -> str:
        return base64.b64encode(self._content).decode("ascii")

    def ids(self) -> list[int]:
        return list(range(self._library.get_piece_size()))

    def special_ids(self) -> tuple[int | None, int | None, int | None]:
        unknown, begin, end = (
            None if id < 0 else id for id in (self._library.unk_id(), self._library.bos_id(), self._library.eos_id())
        )
        return unknown, begin, end

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [list(ids) for ids in self._library.encode(texts, out_type=int)] if texts else []

    def decode(self, ids: list[int]) -> str:
        text = str(self._library.decode(ids))
        return _show_unknown(text, self._surface) if self._library.unk_id() in ids else text

    def token(self, id: int) -> str:
        return str(self._library.id_to_piece(id)).replace("▁", " ").strip(" ")


def _show_unknown(text: str, surface: str) -> str:
    """A text of SentencePiece with ``⁇`` for unknown tokens; ``surface``: what it shows instead."""
    if UNKNOWN_TEXT in surface:
        return text.replace(f" {UNKNOWN_TEXT} ", UNKNOWN_TEXT)
    return text.replace(surface, UNKNOWN_TEXT) if surface else text


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
        return _show_unknown(text, self._surface) if unknown in ids else text

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
