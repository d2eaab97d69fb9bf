"""Preprocessing of text: symbols, normalization, protected matches.

For character and word tokenizers a text becomes segments, each either one token already or text to be tokenized.
Without any option set there is one segment, the text itself.

**Normalization**: ``nfc`` composes canonically equivalent characters (``e`` and an accent become ``é``, Korean letters
a syllable); ``nfkc`` also replaces compatibility forms (full-width letters, ligatures, ``①``, no-break space).
``lowercase`` comes next, letter by letter: ``İ`` becomes ``i`` and a dot, and a capital sigma ``σ`` wherever it stands.
Both are done by the `tokenizers` library, so that its version of Unicode, not Python's, decides, and a `tokenizer.json`
opened with that library alone does the same.

**Symbols** are strings such as ``<2de>`` or ``<turn>``. Each is exactly one token wherever it occurs. It is
searched for before normalization (the longest match wins) and decodes to itself.

**Protected patterns** are regular expressions of the Oniguruma kind (that of the `tokenizers` library, for every kind
of tokenizer): ``\\d+``, ``\\p{Lu}+``, ``\\{\\w+\\}``. They are matched against the text between symbols, after
normalization, in the order given. Nothing is joined across the edges of a match. A match that is frequent enough in
the training text gets an id as a whole; others are tokenized inside. The most frequent get ids, at most a quarter of
all. Numbered back references do not work: the patterns become one expression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenizers import Regex, normalizers, pre_tokenizers

from weft.errors import VocabularyError, nearest
from weft.text.isolation import IsolatedError, IsolatedProcess, library_errors
from weft.text.specials import SPECIALS
from weft.text.vocabulary import check_text

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions


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
        normalizers_of(options.normalize, options.lowercase)
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
        return normalizer(self.normalize, self.lowercase)

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
            normalizers_of(normalize, lowercase)
            symbols, protect = check_symbols(lists["predefined_symbols"]), check_patterns(lists["protect"])
        except VocabularyError as error:
            raise VocabularyError(f"{name}: damaged: {error}") from None
        return cls(normalize, lowercase, symbols, protect, lists["protected_tokens"])

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        lines = [f"normalization: {describe_normalization(self.normalize, self.lowercase)}"]
        lines += [f"symbols: {' '.join(self.symbols)}"] if self.symbols else []
        return lines + [f"protected: {pattern}" for pattern in self.protect]


FORMS = ("none", "nfc", "nfkc")


def normalizers_of(normalize: str, lowercase: bool) -> list[normalizers.Normalizer]:
    """The library's normalizers, in order."""
    if normalize not in FORMS:
        raise VocabularyError(f"normalize {normalize!r} is not known; {nearest(str(normalize), FORMS)}")
    steps: list[normalizers.Normalizer] = []
    if normalize != "none":
        steps.append(normalizers.NFC() if normalize == "nfc" else normalizers.NFKC())
    if lowercase:
        steps.append(normalizers.Lowercase())
    return steps


def normalizer(normalize: str, lowercase: bool) -> Callable[[str], str] | None:
    """A function that normalizes a text; None if there is nothing to do."""
    steps = normalizers_of(normalize, lowercase)
    function: Callable[[str], str] = normalizers.Sequence(steps).normalize_str
    return function if steps else None


def describe_normalization(normalize: str, lowercase: bool) -> str:
    """A short description: ``nfkc, lowercase``, or ``none``."""
    names = [normalize] * (normalize != "none") + ["lowercase"] * lowercase
    return ", ".join(names) or "none"


BYTE_TOKENS = tuple(f"<0x{value:02X}>" for value in range(256))
_RESERVED = frozenset((*SPECIALS, *BYTE_TOKENS))
_PROBES = ("\ue000", "1", "a b", "x. -")


def check_symbols(symbols: Iterable[str], *, reserved: str = "") -> tuple[str, ...]:
    """The symbols as a tuple, or a one-line error; none may contain white space or a reserved character."""
    checked = tuple(symbols)
    for symbol in checked:
        if not isinstance(symbol, str) or not symbol or symbol != "".join(symbol.split()):
            raise VocabularyError(f"symbol {symbol!r}: expected a text without white space, for example '<2de>'")
        check_text(symbol)
        if symbol in _RESERVED:
            raise VocabularyError(f"symbol {symbol!r}: is the name of a special token or a byte; choose another")
        for character in reserved:
            if character in symbol:
                raise VocabularyError(f"symbol {symbol!r}: holds {character}, which marks spaces; choose another")
        if checked.count(symbol) > 1:
            raise VocabularyError(f"symbol {symbol!r}: given twice")
    return checked


def symbol_pattern(symbols: Sequence[str]) -> re.Pattern[str] | None:
    """Matches any of the symbols, as a group; None if there are no symbols."""
    if not symbols:
        return None
    return re.compile("(" + alternatives(symbols) + ")")


def alternatives(symbols: Sequence[str]) -> str:
    """A regular expression for any of them, the longest first."""
    return "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))


def check_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns as a tuple, or a one-line error."""
    checked = tuple(patterns)
    for pattern in checked:
        try:
            check_text(pattern)
            Regex(pattern)
            probe_normalizer = normalizers.Replace(Regex(rf"(?:{pattern})(?<=\A)"), "x")
            matches_empty = any(probe_normalizer.normalize_str(probe) != probe for probe in _PROBES)
        except Exception as error:  # the library raises plain Exception
            reason = " ".join(str(error).split()).removeprefix("Oniguruma error: ")
            raise VocabularyError(f"protect {pattern!r}: not a regular expression: {reason}") from None
        if matches_empty:
            raise VocabularyError(f"protect {pattern!r}: matches the empty text; write it so that it cannot")
    _check_time(checked)
    return checked


@lru_cache(maxsize=64)
def _check_time(patterns: tuple[str, ...]) -> None:
    """Refuse patterns that take too long on long words: they are tried in a separate process."""
    repeating = [pattern for pattern in patterns if any(character in pattern for character in "*+?{|(")]
    if not repeating:
        return
    try:
        IsolatedProcess("weft.text.isolated_tokenizer").call("try_patterns", repeating)
    except IsolatedError as error:
        pattern = repeating[max(error.item, 0)]
        raise VocabularyError(
            f"protect {pattern!r}: takes too long on a long word; write it without nested repetitions ({error})"
        ) from None


def any_of(patterns: Sequence[str]) -> str:
    """One expression for all patterns."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


class ProtectedPatterns:
    """Finds the matches of protected patterns."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._matches = pre_tokenizers.Split(Regex(any_of(patterns)), "removed", invert=True)

    def find(self, text: str) -> list[tuple[int, int]]:
        """The spans of the matches, in order."""
        with library_errors(f"protect {' '.join(self.patterns)}: cannot be matched with {text[:40]!r}"):
            return [span for _, span in self._matches.pre_tokenize_str(text)] if text else []

    def most_frequent(self, texts: Iterable[str], *, limit: int, minimum_count: int) -> list[str]:
        """The matches that get an id: the most frequent first, ties in code point order."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text[start:end] for start, end in self.find(text))
        kept = [match for match, count in counts.items() if count >= minimum_count]
        return sorted(kept, key=lambda match: (-counts[match], match))[:limit]
