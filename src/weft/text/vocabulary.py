"""A two-way table between symbols and ids, the JSON file of the tokenizers that have one, and the options of learning.

The special tokens come first. Then the symbols: the most frequent first, ties in code point order, so that the same
text always gives the same ids, in whatever order it was read. The special tokens are not in the table that text is
looked up in: a symbol spelled ``</s>`` has its own id, or is unknown.

The file: ``{"weft_tokenizer": 2, "kind": "word", "symbols": [...], ...}``, predefined symbols first, then by frequency.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from weft.errors import InputTooLongError, VocabularyError
from weft.files import save_text
from weft.text.specials import SPECIALS, UNKNOWN

FORMAT = 2
"""The format of tokenizer files that this code reads and writes."""
MAX_TEXT_CHARACTERS = 1_000_000
"""The longest text that is tokenized; the `tokenizers` library fails for some of ten million."""
FIRST_SYMBOL_ID = len(SPECIALS)


class Vocabulary:
    """Symbols with their ids: ``vocabulary[symbol]`` and ``vocabulary.symbol(id)``."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: id for id, symbol in enumerate(self.symbols, FIRST_SYMBOL_ID)}
        if len(self._ids) != len(self.symbols):
            duplicate = next(symbol for symbol, count in Counter(self.symbols).items() if count > 1)
            raise VocabularyError(f"vocabulary: the symbol {duplicate!r} occurs in it twice")
        self._names = SPECIALS + self.symbols

    @classmethod
    def learn(cls, symbols: Iterable[str], options: LearningOptions, predefined: Iterable[str] = ()) -> Vocabulary:
        """The predefined symbols, then those that occur often enough, the most frequent first."""
        first = dict.fromkeys(predefined)
        smallest = len(first) + FIRST_SYMBOL_ID + 1
        if options.size is not None and options.size < smallest:
            raise VocabularyError(f"vocabulary: size {options.size} is too small; the least size is {smallest}")
        options.check_minimum_count()
        counts = Counter(symbol for symbol in symbols if symbol not in first)
        if not counts:
            raise VocabularyError("vocabulary: there is no text to learn from")
        kept = _by_frequency(counts, options.minimum_count)
        if not kept:
            raise VocabularyError(
                f"vocabulary: no symbol occurs {options.minimum_count} times; lower the minimum count"
            )
        limit = None if options.size is None else options.size - FIRST_SYMBOL_ID - len(first)
        return cls([*first, *kept[:limit]])

    def extended(self, symbols: Iterable[str], *, minimum_count: int = 1) -> Vocabulary:
        """This vocabulary with the new symbols appended; existing ids do not change."""
        counts = Counter(symbol for symbol in symbols if symbol not in self._ids)
        return Vocabulary([*self.symbols, *_by_frequency(counts, minimum_count)])

    def with_symbols(self, symbols: Iterable[str]) -> Vocabulary:
        """This vocabulary with names for more ids; these symbols are not looked up, and may be in it already."""
        extended = copy.copy(self)
        extended._names = self._names + tuple(symbols)
        return extended

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._ids

    def __getitem__(self, symbol: str) -> int:
        """The id of a symbol, or that of the unknown token."""
        return self._ids.get(symbol, UNKNOWN)

    def ids(self, symbols: Iterable[str]) -> list[int]:
        get_id = self._ids.get
        return [get_id(symbol, UNKNOWN) for symbol in symbols]

    def symbol(self, id: int) -> str:
        """The symbol of an id; for a special token, its name."""
        check_ids((id,), len(self))
        return self._names[id]


def _by_frequency(counts: Counter[str], minimum_count: int) -> list[str]:
    kept = [symbol for symbol, count in counts.items() if count >= minimum_count]
    return sorted(kept, key=lambda symbol: (-counts[symbol], symbol))


def check_ids(ids: Sequence[int], size: int) -> None:
    """Reject ids outside a vocabulary of this size."""
    for extreme in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= extreme < size:
            raise VocabularyError(f"id {extreme} is not in the vocabulary, which has the ids 0 to {size - 1}")


def check_lengths(texts: Sequence[str]) -> None:
    """Reject texts that are too long to be tokenized."""
    longest = max(map(len, texts), default=0)
    if longest > MAX_TEXT_CHARACTERS:
        raise InputTooLongError(
            f"a text of {longest:,} characters; at most {MAX_TEXT_CHARACTERS:,} are tokenized; split it"
        )


def check_text(text: str) -> None:
    """Reject a string that is too long, or not text: half of a surrogate pair cannot be written in UTF-8."""
    check_lengths((text,))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise VocabularyError(f"character {error.start + 1} is a lone surrogate (U+{code:04X}), not text") from None


def checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each checked as it is read."""
    for text in texts:
        check_text(text)
        yield text


def save_tokenizer(path: Path, kind: str, **content: object) -> None:
    save_text(path, json.dumps({"weft_tokenizer": FORMAT, "kind": kind, **content}, ensure_ascii=False, indent=0))


def read_flag(content: dict[str, Any], setting: str, name: str) -> bool:
    """A true or false of a tokenizer's file; ``name``: the file's."""
    value = content.get(setting)
    if not isinstance(value, bool):
        raise VocabularyError(f"{name}: damaged: {setting} is {value!r}, expected true or false")
    return value


def read_symbols(content: dict[str, Any], name: str) -> list[str]:
    symbols = content.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise VocabularyError(f"{name}: damaged: it has no list of symbols")
    return symbols


def read_vocabulary(symbols: list[str], name: str, required: set[str]) -> Vocabulary:
    if missing := required.difference(symbols):
        raise VocabularyError(f"{name}: damaged: {min(missing)!r} is not among its symbols")
    try:
        return Vocabulary(symbols)
    except VocabularyError as error:
        raise VocabularyError(f"{name}: damaged: {error}") from None


class SymbolTokenizer:
    """The part of a tokenizer that splits a text into symbols, each of which has an id or is unknown."""

    vocabulary: Vocabulary

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return self.vocabulary.ids(self._split(text))

    def symbols(self, text: str) -> Sequence[str]:
        """The symbols of a text (characters and tags, or words with their joiners): one for every id of `encode`."""
        check_text(text)
        return self._split(text)

    def symbol_ids(self, symbols: Sequence[str]) -> list[int]:
        return self.vocabulary.ids(symbols)

    def id_symbols(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary.symbol(id) for id in ids]

    def _split(self, text: str) -> Sequence[str]:
        raise NotImplementedError


@dataclass(frozen=True)
class LearningOptions:
    """Options of `weft.text.tokenizer.learn`. An option that a kind has no use for is ignored by it."""

    size: int | None = None
    """Maximum number of ids, special tokens included (bpe, unigram: required; byte: always 259)."""
    minimum_count: int = 1
    """The minimum count of a character, a word, a pair to merge, or a protected match."""
    end_of_word: bool = True
    """bpe, unigram: mark where a word ends (``</w>``) rather than where it begins (``▁``)."""
    byte_level: bool = False
    """bpe, unigram: subwords of bytes rather than of characters, so that nothing is unknown."""
    byte_fallback: bool = False
    """bpe, unigram: a character without an id becomes its bytes, so that nothing is unknown."""
    split_punctuation: bool = True
    """word, bpe, unigram: punctuation is separate from the word beside it."""
    tags: bool = False
    """character: a tag such as ``<ACC(PL)>`` is one symbol."""
    decompose: bool = False
    """character: decompose text (NFD), so that a Korean syllable becomes its letters."""
    normalize: str = "none"
    """all but byte: ``none``, ``nfc`` or ``nfkc``."""
    lowercase: bool = False
    """all but byte: lowercase the text."""
    symbols: tuple[str, ...] = ()
    """all but byte: strings such as ``<2de>`` that are one token wherever they occur."""
    protect: tuple[str, ...] = ()
    """all but byte: regular expressions; a match is never joined with its neighbors, frequent matches get an id."""
    channels: int = 1
    """picture: values of a pixel, 1 or 3; frames: values of a frame."""
    height: int = 0
    """picture: pixels in height to which every picture is scaled; 0: none is."""
    max_values: int = 1 << 22
    """picture, frames: the largest file that is read, in pixels or values."""

    @classmethod
    def from_settings(cls, settings: object) -> LearningOptions:
        """The options among the attributes of an object, such as the ``[tokenizer]`` section of a recipe."""
        values: dict[str, Any] = {field.name: getattr(settings, field.name) for field in fields(cls)}
        return cls(**values | {name: tuple(values[name]) for name in ("symbols", "protect")})

    def required_size(self, kind: str) -> int:
        """The size, for kinds that require one."""
        if self.size is None:
            raise VocabularyError(f"vocabulary: {kind} needs a size, for example 8000")
        return self.size

    def check_minimum_count(self) -> None:
        if self.minimum_count < 1:
            raise VocabularyError(f"vocabulary: minimum count {self.minimum_count}, expected 1 or more")
