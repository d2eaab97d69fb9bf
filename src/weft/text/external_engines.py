"""External tokenizers in their own library, with their own ids; `weft.text.isolated_tokenizer` runs them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from weft.text.pretokenization import byte_alphabet
from weft.text.specials import UNKNOWN_TEXT

BEGIN_NAMES = ("<s>", "<bos>", "[BOS]", "[CLS]", "<|begin_of_text|>", "<|startoftext|>")
END_NAMES = ("</s>", "<eos>", "[EOS]", "[SEP]", "<|end_of_text|>", "<|endoftext|>")


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
        self._surface = str(self._library.decode([self._library.unk_id()]))

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
        if self._library.unk_id() in ids and UNKNOWN_TEXT not in (surface := self._surface.strip()):
            return text.replace(surface, UNKNOWN_TEXT) if surface else text
        return text.replace(f" {UNKNOWN_TEXT} ", UNKNOWN_TEXT) if self._library.unk_id() in ids else text

    def token(self, id: int) -> str:
        return str(self._library.id_to_piece(id)).replace("▁", " ").strip(" ")
