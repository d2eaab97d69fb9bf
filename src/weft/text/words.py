"""Bytes and words: units that need no learning beyond counting. Characters are in `weft.text.characters`.

Each is saved as JSON: ``{"weft_tokenizer": 1, "kind": "word", "symbols": [...], ...}``, most frequent symbol first.

Words are reversible. Where a word stood glued to its neighbor, one of the two carries the joiner ``￭`` (U+FFED) on
that side: a punctuation mark takes it towards the word before it; otherwise the first of the two, which is then an
opening mark or an elided word, takes it towards the word after it::

    il m'a entarté.   →   il  m'￭  a  entarté  ￭.
    vu (hier)?        →   vu  (￭  hier  ￭)  ￭?

So the vocabulary knows ``￭.`` and ``(￭``, the letters' words are the same with and without a neighbor, and `decode`
restores the line exactly if its words were separated by single spaces and it neither began nor ended with one. All
white space (as `str.split` sees it) counts as one space. A ``￭`` in the text itself is read as ``■`` (U+25A0), the
character that Unicode gives as its equivalent. An unknown word decodes as ``⁇`` between spaces.

Given symbols and protected matches (`weft.text.symbols`) are one symbol each, words or characters; they carry no
joiner.
Where one is glued to its neighbor a joiner stands alone between them, as a token::

    a<2de> b   →   a  ￭  <2de>  b
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from weft.errors import VocabularyError
from weft.text import word_splitting as words
from weft.text.characters import Character
from weft.text.preprocessing import Preparation
from weft.text.specials import SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.unit_files import FIRST, FORMAT, checked, count, read_choice, read_symbols, read_vocabulary, save
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import Vocabulary, check_ids, check_text
from weft.text.word_cache import Arrays, WordCache, end_to_end

__all__ = ["FORMAT", "Byte", "Character", "Word", "cut"]

JOINER = "￭"
JOINER_TYPED = "■"


class Byte:
    """One id a byte of the UTF-8 form: ids 3 to 258, nothing to learn and nothing unknown."""

    kind = "byte"
    can_drop = False
    size = FIRST + 256

    @classmethod
    def learn(cls, texts: Iterable[str] = (), *, size: int | None = None) -> Self:
        if size is not None and size < cls.size:
            raise VocabularyError(f"vocabulary: size {size} is too small; the least size for bytes is {cls.size}")
        return cls()

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        return self

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return [FIRST + value for value in text.encode("utf-8")]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The ids of all texts end to end, and how many each has."""
        try:
            rows = [text.encode("utf-8") for text in texts]
        except UnicodeEncodeError:
            for text in texts:
                check_text(text)
            raise
        ids = np.frombuffer(b"".join(rows), np.uint8).astype(np.int32) + np.int32(FIRST)
        return ids, np.fromiter(map(len, rows), np.int64, len(rows))

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        return ["normalization: none"]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; what is not valid UTF-8 becomes U+FFFD, as `bytes.decode(errors="replace")` has it."""
        return decode_bytes(self._bytes(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < FIRST else show_byte(id - FIRST) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of the character that each byte is a part of."""
        return spans_of_bytes(self._bytes(ids))

    def _bytes(self, ids: Sequence[int]) -> list[bytes]:
        check_ids(ids, self.size)
        return [_BYTES[id] for id in ids]

    def save(self, path: Path) -> None:
        save(path, self.kind)

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        return cls()


_BYTES = (UNKNOWN_TEXT.encode(), b"", b"", *(bytes([value]) for value in range(256)))


def show_byte(value: int) -> str:
    """A byte as a picture shows it: its ASCII character, or ``<0xC3>``."""
    return visible(chr(value)) if 32 <= value < 127 else f"<0x{value:02X}>"


class Word:
    """One id a word; punctuation and elided words carry joiners (module docstring)."""

    kind = "word"
    can_drop = False

    def __init__(
        self, vocabulary: Vocabulary, *, split_punctuation: bool = True, preparation: Preparation | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self.split_punctuation = split_punctuation
        self.preparation = preparation or Preparation()

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        size: int | None = None,
        minimum_count: int = 1,
        split_punctuation: bool = True,
        normalize: str = "none",
        lowercase: bool = False,
        symbols: Iterable[str] = (),
        protect: Iterable[str] = (),
    ) -> Self:
        protect = tuple(protect)
        texts = list(_typed(texts)) if protect else _typed(texts)
        preparation = Preparation.learn(
            texts if isinstance(texts, list) else (),
            normalize=normalize,
            lowercase=lowercase,
            symbols=symbols,
            protect=protect,
            size=size,
            minimum_count=minimum_count,
            without=JOINER,
        )
        empty = cls(Vocabulary([]), split_punctuation=split_punctuation, preparation=preparation)
        found = (word for text in texts for word in empty._cut(text))
        joiner = (JOINER,) if preparation.cuts else ()
        vocabulary = count(found, (*preparation.symbols, *joiner, *preparation.wholes), size, minimum_count)
        return cls(vocabulary, split_punctuation=split_punctuation, preparation=preparation)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        found = (word for text in checked(texts) for word in self._cut(text))
        vocabulary = self.vocabulary.extended(found, minimum_count=minimum_count)
        return type(self)(vocabulary, split_punctuation=self.split_punctuation, preparation=self.preparation)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return self.vocabulary.ids(self._cut(text))

    def _cut(self, text: str) -> list[str]:
        if self.preparation.is_plain:
            return cut(text, split_punctuation=self.split_punctuation)
        found: list[str] = []
        glued = False  # what was found last ends where this stretch begins
        for stretch in self.preparation.stretches(text.replace(JOINER, JOINER_TYPED)):
            new = [stretch.text] if stretch.atom else cut(stretch.text, split_punctuation=self.split_punctuation)
            if glued and new and not stretch.text[0].isspace():
                found.append(JOINER)
            found += new
            glued = not stretch.text[-1].isspace()
        return found

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The ids of all texts end to end, and how many each has."""
        return end_to_end(self.encode_batch(texts)) if self.preparation.cuts else self._bulk.arrays(texts)

    @cached_property
    def _bulk(self) -> WordCache:
        return WordCache(self.encode_batch, [])

    def decode(self, ids: Sequence[int]) -> str:
        return self._lay_out(ids)[0]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        symbols = map(self.vocabulary.symbol, ids)
        return [symbol.replace(JOINER, "") or JOINER for symbol in symbols]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return self._lay_out(ids)[1]

    def _lay_out(self, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
        """The text and the place of every word in it."""
        check_ids(ids, self.size)
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        length, glued = 0, True
        for id in ids:
            if id == UNKNOWN:
                symbol = UNKNOWN_TEXT
            elif id < FIRST:
                spans.append((length, length))
                continue
            else:
                symbol = self.vocabulary.symbol(id)
            if not glued and not symbol.startswith(JOINER):
                parts.append(" ")
                length += 1
            word = symbol.replace(JOINER, "")
            parts.append(word)
            spans.append((length, length + len(word)))
            length += len(word)
            glued = symbol.endswith(JOINER)
        return "".join(parts), spans

    def save(self, path: Path) -> None:
        choices = {"split_punctuation": self.split_punctuation, **self.preparation.content()}
        save(path, self.kind, **choices, symbols=self.vocabulary.symbols)

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        return self.preparation.description()

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        split_punctuation = read_choice(found, "split_punctuation", name)
        preparation = Preparation.from_json(found, name=name)
        whole = {*preparation.symbols, *preparation.wholes, *((JOINER,) if preparation.cuts else ())}
        vocabulary = read_vocabulary(read_symbols(found, name), name, whole)
        return cls(vocabulary, split_punctuation=split_punctuation, preparation=preparation)


def cut(text: str, *, split_punctuation: bool = True) -> list[str]:
    """The words of a text with their joiners."""
    text = text.replace(JOINER, JOINER_TYPED)
    if not split_punctuation:
        return text.split()
    found = words.split(text)
    marked: list[str] = []
    opened = False  # the word before this one carries the joiner between them
    for place, word in enumerate(found):
        before = found[place - 1].end == word.start if place else False
        following = found[place + 1] if place + 1 < len(found) else None
        after = following is not None and word.end == following.start and not _is_mark(following.text)
        marked.append((JOINER if before and not opened else "") + word.text + (JOINER if after else ""))
        opened = after
    return marked


def _is_mark(word: str) -> bool:
    return len(word) == 1 and unicodedata.category(word)[0] in "PS"


def _typed(texts: Iterable[str]) -> Iterator[str]:
    return (text.replace(JOINER, JOINER_TYPED) for text in checked(texts))
