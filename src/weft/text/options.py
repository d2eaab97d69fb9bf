"""The options that a tokenizer is learned with, shared by all kinds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from weft.errors import VocabularyError


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
