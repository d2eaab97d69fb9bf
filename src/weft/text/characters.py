"""Character tokenizer: one id for each Unicode character.

Characters may come with tags, for what is not spelled out: the features of a word form, the target language. A tag is
``<``, anything but angle brackets and white space, ``>``, and is one symbol::

    gehen <V><PST(SG)>   →   g  e  h  e  n  ␣  <V>  <PST(SG)>

A tag is text and a symbol like any other: it decodes to itself, and a tag not seen in training is unknown as a whole.
Text that spells a special token (``<unk>``, ``<s>``, ``</s>``) is not a tag, but characters.

Characters may be decomposed (Unicode's NFD): a Korean syllable into its letters, ``é`` into ``e`` and an accent.
Decoded text is composed again (NFC)::

    각   →   ᄀ  ᅡ  ᆨ
"""

from __future__ import annotations

import copy
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.errors import VocabularyError
from weft.text.id_rows import TokenArrays, to_arrays
from weft.text.preprocessing import Preprocessor
from weft.text.specials import SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.vocabulary import (
    FIRST_SYMBOL_ID,
    SymbolTokenizer,
    Vocabulary,
    check_ids,
    check_lengths,
    check_text,
    checked,
    read_flag,
    read_symbols,
    read_vocabulary,
    save_tokenizer,
)

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions

_TAG_OR_CHARACTER = re.compile(rf"(?!{'|'.join(map(re.escape, SPECIALS))})<[^<>\s]+>|.", re.DOTALL)


class CharacterTokenizer(SymbolTokenizer):
    """One id for each Unicode character, or for each tag with `tags`; of decomposed text with `decompose`."""

    kind = "character"
    supports_dropout = False

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        tags: bool = False,
        decompose: bool = False,
        preprocessor: Preprocessor | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.tags = tags
        self.decompose = decompose
        self.preprocessor = preprocessor or Preprocessor()
        self._texts = (UNKNOWN_TEXT, "", "", *vocabulary.symbols)

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        texts = list(checked(texts)) if options.protect else checked(texts)
        preprocessor = Preprocessor.learn(texts if isinstance(texts, list) else (), options)
        characters = (
            character
            for text in texts
            for segment in preprocessor.segments(text)
            if segment.text not in preprocessor.symbols
            for character in split(segment.text, tags=options.tags, decompose=options.decompose)  # also inside matches
        )
        predefined = (*preprocessor.symbols, *preprocessor.protected_tokens)
        vocabulary = Vocabulary.learn(characters, options, predefined)
        return cls(vocabulary, tags=options.tags, decompose=options.decompose, preprocessor=preprocessor)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        characters = (character for text in checked(texts) for character in self._split(text))
        vocabulary = self.vocabulary.extended(characters, minimum_count=minimum_count)
        return type(self)(vocabulary, tags=self.tags, decompose=self.decompose, preprocessor=self.preprocessor)

    def with_symbols(self, symbols: Sequence[str]) -> Self:
        """The tokenizer with ids for these symbols after its own; for decoding only."""
        extended = copy.copy(self)
        extended.vocabulary = self.vocabulary.with_symbols(symbols)
        extended._texts = (*self._texts, *symbols)
        return extended

    def _split(self, text: str) -> Sequence[str]:
        if self.preprocessor.is_identity:
            return split(text, tags=self.tags, decompose=self.decompose)
        symbols: list[str] = []
        for segment in self.preprocessor.segments(text):
            if segment.is_token:
                symbols.append(segment.text)
            else:
                symbols += split(segment.text, tags=self.tags, decompose=self.decompose)
        return symbols

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        if self.tags or self.decompose or not self.preprocessor.is_identity:
            return to_arrays(self.encode_batch(texts))
        check_lengths(texts)
        try:
            codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        except UnicodeEncodeError:
            for text in texts:
                check_text(text)
            raise
        return self._code_point_ids[codes], np.fromiter(map(len, texts), np.int64, len(texts))

    @cached_property
    def _code_point_ids(self) -> NDArray[np.int32]:
        """The id of every code point."""
        table = np.full(sys.maxunicode + 1, UNKNOWN, np.int32)
        for id, symbol in enumerate(self.vocabulary.symbols, FIRST_SYMBOL_ID):
            table[ord(symbol)] = id
        return table

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        text = "".join([self._texts[id] for id in ids])
        return unicodedata.normalize("NFC", text) if self.decompose else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < FIRST_SYMBOL_ID else visible(self._texts[id]) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The span of every character; for a part of one, the span of the character it is composed into."""
        check_ids(ids, self.size)
        if not self.decompose:
            return _consecutive_spans(len(self._texts[id]) for id in ids)
        return _spans_of_parts([self._texts[id] for id in ids])

    def save(self, path: Path) -> None:
        flags = {"tags": self.tags, "decompose": self.decompose}
        save_tokenizer(path, self.kind, **flags, **self.preprocessor.to_json(), symbols=self.vocabulary.symbols)

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        return self.preprocessor.description()

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        content = {"tags": False, "decompose": False, **content}
        tags, decompose = read_flag(content, "tags", name), read_flag(content, "decompose", name)
        symbols, preprocessor = read_symbols(content, name), Preprocessor.from_json(content, name=name)
        predefined = {*preprocessor.symbols, *preprocessor.protected_tokens}
        for symbol in symbols:
            if symbol not in predefined and len(split(symbol, tags=tags, decompose=decompose)) != 1:
                raise VocabularyError(f"{name}: damaged: {symbol!r} is not one character{' or tag' if tags else ''}")
        vocabulary = read_vocabulary(symbols, name, predefined)
        return cls(vocabulary, tags=tags, decompose=decompose, preprocessor=preprocessor)


def split(text: str, *, tags: bool = False, decompose: bool = False) -> Sequence[str]:
    """The characters of a text, each tag as one."""
    if decompose:
        text = unicodedata.normalize("NFD", text)
    return _TAG_OR_CHARACTER.findall(text) if tags else text


def _consecutive_spans(lengths: Iterable[int]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for length in lengths:
        spans.append((start, start + length))
        start += length
    return spans


def _spans_of_parts(parts: Sequence[str]) -> list[tuple[int, int]]:
    """The span of each part in the composed text of all (NFC); parts that compose share a span."""
    spans: list[tuple[int, int]] = []
    start, first = 0, 0
    for index in range(1, len(parts) + 1):
        if index < len(parts) and not _is_separate(parts, first, index):
            continue
        group = parts[first:index]
        end = start + len(unicodedata.normalize("NFC", "".join(group)))
        if end - start == sum(map(len, group)):
            spans += [(start + left, start + right) for left, right in _consecutive_spans(map(len, group))]
        else:
            spans += [(start, end) if part else (end, end) for part in group]
        start, first = end, index
    return spans


def _is_separate(parts: Sequence[str], first: int, index: int) -> bool:
    """Whether part ``index``, and with it all that follow, composes with none of the parts from ``first`` on."""
    if not parts[index] or unicodedata.combining(parts[index][0]):
        return False
    before, character = "".join(parts[first:index]), parts[index][0]
    return unicodedata.normalize("NFC", before + character) == unicodedata.normalize("NFC", before) + character
