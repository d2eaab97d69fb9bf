"""Preprocessing of text for character and word tokenizers: symbols, normalization, protected matches.

A text becomes segments, each either one token already or text to be tokenized. Without any option set there is one
segment, the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import VocabularyError
from weft.text import normalization
from weft.text.symbols import ProtectedPatterns, check_patterns, check_symbols, symbol_pattern

if TYPE_CHECKING:
    from weft.text.options import LearningOptions


class Segment(NamedTuple):
    """A part of a text."""

    text: str
    is_token: bool
    """Whether it is one token as a whole; if not, it is to be tokenized."""


@dataclass(frozen=True)
class Preprocessor:
    """Processing of a text before it is split into characters or words."""

    normalize: str = "none"
    lowercase: bool = False
    symbols: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    protected_tokens: tuple[str, ...] = ()
    """Protected matches that are one token each."""

    @classmethod
    def learn(cls, texts: Sequence[str], options: LearningOptions, *, reserved: str = "") -> Preprocessor:
        """Check the options, and find the protected matches that are frequent enough: at most a quarter of the ids.

        ``reserved``: characters that no symbol may contain.
        """
        normalization.normalizers_of(options.normalize, options.lowercase)
        symbols = check_symbols(options.symbols, reserved=reserved)
        preprocessor = cls(options.normalize, options.lowercase, symbols, check_patterns(options.protect))
        if not preprocessor.protect:
            return preprocessor
        options.check_minimum_count()
        limit = len(texts) + sum(map(len, texts)) if options.size is None else max(options.size, 0) // 4
        unprotected = (
            segment.text for text in texts for segment in preprocessor._split_symbols(text) if not segment.is_token
        )
        matches = preprocessor._patterns.most_frequent(unprotected, limit=limit, minimum_count=options.minimum_count)
        stripped = dict.fromkeys(match.strip() for match in matches)
        tokens = tuple(match for match in stripped if match and match not in symbols)
        return replace(preprocessor, protected_tokens=tokens)

    @cached_property
    def is_identity(self) -> bool:
        return self == Preprocessor()

    @cached_property
    def splits(self) -> bool:
        """Whether a text may have more than one segment."""
        return bool(self.symbols or self.protect)

    def segments(self, text: str) -> list[Segment]:
        """The nonempty segments of a text; concatenated they are the normalized text."""
        if not self.protect:
            return list(self._split_symbols(text))
        segments: list[Segment] = []
        for segment in self._split_symbols(text):
            if segment.is_token:
                segments.append(segment)
                continue
            position = 0
            for start, end in self._patterns.find(segment.text):
                match = segment.text[start:end]
                start += len(match) - len(match.lstrip())
                end = start + len(match.strip())
                if start < end:
                    if position < start:
                        segments.append(Segment(segment.text[position:start], False))
                    match = segment.text[start:end]
                    segments.append(Segment(match, match in self._protected_set))
                    position = end
            if position < len(segment.text):
                segments.append(Segment(segment.text[position:], False))
        return segments

    def _split_symbols(self, text: str) -> Iterator[Segment]:
        parts = [text] if self._symbol_pattern is None else self._symbol_pattern.split(text)
        for index, part in enumerate(parts):
            if index % 2:
                yield Segment(part, True)
            elif part:
                yield Segment(part if self._normalizer is None else self._normalizer(part), False)

    @cached_property
    def _symbol_pattern(self) -> re.Pattern[str] | None:
        return symbol_pattern(self.symbols)

    @cached_property
    def _normalizer(self) -> Callable[[str], str] | None:
        return normalization.normalizer(self.normalize, self.lowercase)

    @cached_property
    def _patterns(self) -> ProtectedPatterns:
        return ProtectedPatterns(self.protect)

    @cached_property
    def _protected_set(self) -> frozenset[str]:
        return frozenset(self.protected_tokens)

    def to_json(self) -> dict[str, object]:
        """The settings for the tokenizer's file: those that differ from the default."""
        content: dict[str, object] = {
            "normalize": self.normalize,
            "lowercase": self.lowercase,
            "predefined_symbols": list(self.symbols),
            "protect": list(self.protect),
            "protected_tokens": list(self.protected_tokens),
        }
        return {name: value for name, value in content.items() if value not in ("none", False, [])}

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Preprocessor:
        lists = {}
        for key in ("predefined_symbols", "protect", "protected_tokens"):
            value = content.get(key, [])
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise VocabularyError(f"{name}: damaged: {key} is not a list of texts")
            lists[key] = tuple(value)
        lowercase, normalize = content.get("lowercase", False), content.get("normalize", "none")
        if not isinstance(lowercase, bool):
            raise VocabularyError(f"{name}: damaged: lowercase is {lowercase!r}, expected true or false")
        try:
            normalization.normalizers_of(normalize, lowercase)
            symbols, protect = check_symbols(lists["predefined_symbols"]), check_patterns(lists["protect"])
        except VocabularyError as error:
            raise VocabularyError(f"{name}: damaged: {error}") from None
        return cls(normalize, lowercase, symbols, protect, lists["protected_tokens"])

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        lines = [f"normalization: {normalization.describe(self.normalize, self.lowercase)}"]
        lines += [f"symbols: {' '.join(self.symbols)}"] if self.symbols else []
        return lines + [f"protected: {pattern}" for pattern in self.protect]
