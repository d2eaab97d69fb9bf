"""Characters, bytes and words: units that need no learning beyond counting.

Each is saved as JSON: ``{"weft_tokenizer": 1, "kind": "word", "symbols": [...], ...}``, most frequent symbol first.

Words are reversible. Where a word stood glued to its neighbour, one of the two carries the joiner ``￭`` (U+FFED) on
that side: a punctuation mark takes it towards the word before it; otherwise the first of the two, which is then an
opening mark or an elided word, takes it towards the word after it::

    il m'a entarté.   →   il  m'￭  a  entarté  ￭.
    vu (hier)?        →   vu  (￭  hier  ￭)  ￭?

So the vocabulary knows ``￭.`` and ``(￭``, the letters' words are the same with and without a neighbour, and `decode`
restores the line exactly if its words were separated by single spaces and it neither began nor ended with one. All
white space (as `str.split` sees it) counts as one space. A ``￭`` in the text itself is read as ``■`` (U+25A0), the
character that Unicode gives as its equivalent. An unknown word decodes as ``⁇`` between spaces.

Characters may come with tags, for what is no spelling: the features of a word form, the language wanted. A tag is
``<``, anything but angle brackets and white space, ``>``, and is one symbol::

    gehen <V><PST(SG)>   →   g  e  h  e  n  ␣  <V>  <PST(SG)>

A tag is text and a symbol like any other: it decodes to its spelling, and one never seen is unknown, as a whole. What
is spelt like a mark (``<unk>``, ``<s>``, ``</s>``) is no tag, but characters.

Characters may be decomposed (Unicode's NFD): a Korean syllable into its letters, ``é`` into ``e`` and an accent. What
is decoded is composed again (NFC)::

    각   →   ᄀ  ᅡ  ᆨ
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text import words
from weft.text.specials import SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import Vocabulary, check_ids, check_text

FORMAT = 1  # the newest file format this code reads, and the one it writes
JOINER = "￭"
JOINER_TYPED = "■"

_FIRST = len(SPECIALS)
_TAG_OR_CHARACTER = re.compile(rf"(?!{'|'.join(map(re.escape, SPECIALS))})<[^<>\s]+>|.", re.DOTALL)


class Character:
    """One id a Unicode character or, with `tags`, a tag; with `decompose`, of decomposed text (module docstring)."""

    kind = "character"

    def __init__(self, vocabulary: Vocabulary, *, tags: bool = False, decompose: bool = False) -> None:
        self.vocabulary = vocabulary
        self.tags = tags
        self.decompose = decompose
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
    ) -> Self:
        found = (symbol for text in _checked(texts) for symbol in spell(text, tags=tags, decompose=decompose))
        vocabulary = Vocabulary.count(found, size=size, minimum_count=minimum_count)
        return cls(vocabulary, tags=tags, decompose=decompose)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        found = (one for text in _checked(texts) for one in spell(text, tags=self.tags, decompose=self.decompose))
        vocabulary = self.vocabulary.extended(found, minimum_count=minimum_count)
        return type(self)(vocabulary, tags=self.tags, decompose=self.decompose)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return self.vocabulary.ids(spell(text, tags=self.tags, decompose=self.decompose))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        text = "".join([self._texts[id] for id in ids])
        return unicodedata.normalize("NFC", text) if self.decompose else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < _FIRST else visible(self._texts[id]) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of every character; of a part of one, the place of the character it is composed into."""
        check_ids(ids, self.size)
        if not self.decompose:
            return _end_to_end(len(self._texts[id]) for id in ids)
        return _spans_of_parts([self._texts[id] for id in ids])

    def save(self, path: Path) -> None:
        _save(path, self.kind, tags=self.tags, decompose=self.decompose, symbols=self.vocabulary.symbols)

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        found = {"tags": False, "decompose": False, **found}
        tags, decompose = _choice(found, "tags", name), _choice(found, "decompose", name)
        symbols = _symbols(found, name)
        for symbol in symbols:
            if len(spell(symbol, tags=tags, decompose=decompose)) != 1:
                raise VocabularyError(f"{name}: damaged: {symbol!r} is not one character{' or tag' if tags else ''}")
        return cls(_vocabulary(symbols, name), tags=tags, decompose=decompose)


def spell(text: str, *, tags: bool = False, decompose: bool = False) -> Sequence[str]:
    """The characters of a text, with its tags in one piece."""
    if decompose:
        text = unicodedata.normalize("NFD", text)
    return _TAG_OR_CHARACTER.findall(text) if tags else text


class Byte:
    """One id a byte of the UTF-8 form: ids 3 to 258, nothing to learn and nothing unknown."""

    kind = "byte"
    size = _FIRST + 256

    @classmethod
    def learn(cls, texts: Iterable[str] = (), *, size: int | None = None) -> Self:
        if size is not None and size < cls.size:
            raise VocabularyError(f"vocabulary: size {size} is too small; the least size for bytes is {cls.size}")
        return cls()

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        return self

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return [_FIRST + value for value in text.encode("utf-8")]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; what is not valid UTF-8 becomes U+FFFD, as `bytes.decode(errors="replace")` has it."""
        return decode_bytes(self._bytes(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < _FIRST else show_byte(id - _FIRST) for id in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of the character that each byte is a part of."""
        return spans_of_bytes(self._bytes(ids))

    def _bytes(self, ids: Sequence[int]) -> list[bytes]:
        check_ids(ids, self.size)
        return [_BYTES[id] for id in ids]

    def save(self, path: Path) -> None:
        _save(path, self.kind)

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

    def __init__(self, vocabulary: Vocabulary, *, split_punctuation: bool = True) -> None:
        self.vocabulary = vocabulary
        self.split_punctuation = split_punctuation

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        size: int | None = None,
        minimum_count: int = 1,
        split_punctuation: bool = True,
    ) -> Self:
        found = (word for text in _checked(texts) for word in cut(text, split_punctuation=split_punctuation))
        vocabulary = Vocabulary.count(found, size=size, minimum_count=minimum_count)
        return cls(vocabulary, split_punctuation=split_punctuation)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        found = (word for text in _checked(texts) for word in cut(text, split_punctuation=self.split_punctuation))
        vocabulary = self.vocabulary.extended(found, minimum_count=minimum_count)
        return type(self)(vocabulary, split_punctuation=self.split_punctuation)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return self.vocabulary.ids(cut(text, split_punctuation=self.split_punctuation))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self._lay_out(ids)[0]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id < _FIRST else self.vocabulary.symbol(id).replace(JOINER, "") for id in ids]

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
            elif id < _FIRST:
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
        _save(path, self.kind, split_punctuation=self.split_punctuation, symbols=self.vocabulary.symbols)

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        split_punctuation = _choice(found, "split_punctuation", name)
        return cls(_vocabulary(_symbols(found, name), name), split_punctuation=split_punctuation)


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


def _checked(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        check_text(text)
        yield text


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


def _save(path: Path, kind: str, **content: object) -> None:
    save_text(path, json.dumps({"weft_tokenizer": FORMAT, "kind": kind, **content}, ensure_ascii=False, indent=0))


def _choice(found: dict[str, Any], setting: str, name: str) -> bool:
    value = found.get(setting)
    if not isinstance(value, bool):
        raise VocabularyError(f"{name}: damaged: {setting} is {value!r}, expected true or false")
    return value


def _symbols(found: dict[str, Any], name: str) -> list[str]:
    symbols = found.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise VocabularyError(f"{name}: damaged: it has no list of symbols")
    return symbols


def _vocabulary(symbols: list[str], name: str) -> Vocabulary:
    try:
        return Vocabulary(symbols)
    except VocabularyError as error:
        raise VocabularyError(f"{name}: damaged: {error}") from None
