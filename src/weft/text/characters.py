"""Characters, as units that need no learning beyond counting.

Characters may come with tags, for what is no spelling: the features of a word form, the language wanted. A tag is
``<``, anything but angle brackets and white space, ``>``, and is one symbol::

    gehen <V><PST(SG)>   →   g  e  h  e  n  ␣  <V>  <PST(SG)>

A tag is text and a symbol like any other: it decodes to its spelling, and one never seen is unknown, as a whole. What
is spelled like a mark (``<unk>``, ``<s>``, ``</s>``) is no tag, but characters.

Characters may be decomposed (Unicode's NFD): a Korean syllable into its letters, ``é`` into ``e`` and an accent. What
is decoded is composed again (NFC)::

    각   →   ᄀ  ᅡ  ᆨ
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.errors import VocabularyError
from weft.text.preprocessing import Preparation
from weft.text.specials import SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.unit_files import FIRST, checked, count, read_choice, read_symbols, read_vocabulary, save
from weft.text.vocabulary import Vocabulary, check_ids, check_text
from weft.text.word_cache import Arrays, end_to_end

_TAG_OR_CHARACTER = re.compile(rf"(?!{'|'.join(map(re.escape, SPECIALS))})<[^<>\s]+>|.", re.DOTALL)


class Character:
    """One id a Unicode character or, with `tags`, a tag; with `decompose`, of decomposed text (module docstring)."""

    kind = "character"
    can_drop = False

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        tags: bool = False,
        decompose: bool = False,
        preparation: Preparation | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.tags = tags
        self.decompose = decompose
        self.preparation = preparation or Preparation()
        self._texts = (UNKNOWN_TEXT, "", "", *vocabulary.symbols)

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        size: int | None = None,
        minimum_count: int = 1,
        tags: bool = False,
        decompose: bool = False,
        normalize: str = "none",
        lowercase: bool = False,
        symbols: Iterable[str] = (),
        protect: Iterable[str] = (),
    ) -> Self:
        protect = tuple(protect)
        texts = list(checked(texts)) if protect else checked(texts)
        preparation = Preparation.learn(
            texts if isinstance(texts, list) else (),
            normalize=normalize,
            lowercase=lowercase,
            symbols=symbols,
            protect=protect,
            size=size,
            minimum_count=minimum_count,
        )
        found = (
            symbol
            for text in texts
            for stretch in preparation.stretches(text)
            if stretch.text not in preparation.symbols
            for symbol in spell(stretch.text, tags=tags, decompose=decompose)  # of protected wholes too
        )
        vocabulary = count(found, (*preparation.symbols, *preparation.wholes), size, minimum_count)
        return cls(vocabulary, tags=tags, decompose=decompose, preparation=preparation)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        found = (one for text in checked(texts) for one in self._spell(text))
        vocabulary = self.vocabulary.extended(found, minimum_count=minimum_count)
        return type(self)(vocabulary, tags=self.tags, decompose=self.decompose, preparation=self.preparation)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return self.vocabulary.ids(self._spell(text))

    def _spell(self, text: str) -> Sequence[str]:
        if self.preparation.is_plain:
            return spell(text, tags=self.tags, decompose=self.decompose)
        symbols: list[str] = []
        for stretch in self.preparation.stretches(text):
            symbols += (
                (stretch.text,) if stretch.atom else spell(stretch.text, tags=self.tags, decompose=self.decompose)
            )
        return symbols

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The ids of all texts end to end, and how many each has."""
        if self.tags or self.decompose or not self.preparation.is_plain:
            return end_to_end(self.encode_batch(texts))
        try:
            codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        except UnicodeEncodeError:
            for text in texts:
                check_text(text)
            raise
        return self._of_code[codes], np.fromiter(map(len, texts), np.int64, len(texts))

    @cached_property
    def _of_code(self) -> NDArray[np.int32]:
        """The id of every code point."""
        table = np.full(sys.maxunicode + 1, UNKNOWN, np.int32)
        for id, symbol in enumerate(self.vocabulary.symbols, FIRST):
            table[ord(symbol)] = id
        return table

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        text = "".join([self._texts[id] for id in ids])
        return unicodedata.normalize("NFC", text) if self.decompose else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < FIRST else visible(self._texts[id]) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of every character; of a part of one, the place of the character it is composed into."""
        check_ids(ids, self.size)
        if not self.decompose:
            return _end_to_end(len(self._texts[id]) for id in ids)
        return _spans_of_parts([self._texts[id] for id in ids])

    def save(self, path: Path) -> None:
        choices = {"tags": self.tags, "decompose": self.decompose, **self.preparation.content()}
        save(path, self.kind, **choices, symbols=self.vocabulary.symbols)

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        return self.preparation.description()

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        found = {"tags": False, "decompose": False, **found}
        tags, decompose = read_choice(found, "tags", name), read_choice(found, "decompose", name)
        symbols, preparation = read_symbols(found, name), Preparation.from_json(found, name=name)
        whole = {*preparation.symbols, *preparation.wholes}
        for symbol in symbols:
            if symbol not in whole and len(spell(symbol, tags=tags, decompose=decompose)) != 1:
                raise VocabularyError(f"{name}: damaged: {symbol!r} is not one character{' or tag' if tags else ''}")
        vocabulary = read_vocabulary(symbols, name, whole)
        return cls(vocabulary, tags=tags, decompose=decompose, preparation=preparation)


def spell(text: str, *, tags: bool = False, decompose: bool = False) -> Sequence[str]:
    """The characters of a text, with its tags in one piece."""
    if decompose:
        text = unicodedata.normalize("NFD", text)
    return _TAG_OR_CHARACTER.findall(text) if tags else text


def _end_to_end(lengths: Iterable[int]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for length in lengths:
        spans.append((start, start + length))
        start += length
    return spans


def _spans_of_parts(parts: Sequence[str]) -> list[tuple[int, int]]:
    """The place of each part in the composed text of all (NFC); parts that compose share what they make."""
    spans: list[tuple[int, int]] = []
    start, begun = 0, 0
    for place in range(1, len(parts) + 1):
        if place < len(parts) and not _stands_apart(parts, begun, place):
            continue
        together = parts[begun:place]
        end = start + len(unicodedata.normalize("NFC", "".join(together)))
        if end - start == sum(map(len, together)):
            spans += [(start + one, start + other) for one, other in _end_to_end(map(len, together))]
        else:
            spans += [(start, end) if part else (end, end) for part in together]
        start, begun = end, place
    return spans


def _stands_apart(parts: Sequence[str], begun: int, place: int) -> bool:
    """Whether a part, and with it all that follows, composes with none of the parts since ``begun``."""
    if not parts[place] or unicodedata.combining(parts[place][0]):
        return False
    before, first = "".join(parts[begun:place]), parts[place][0]
    return unicodedata.normalize("NFC", before + first) == unicodedata.normalize("NFC", before) + first
