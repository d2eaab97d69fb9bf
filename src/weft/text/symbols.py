"""Text that is never split: predefined symbols, and matches of protected patterns.

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
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tokenizers import Regex, normalizers, pre_tokenizers

from weft.errors import VocabularyError
from weft.text.isolation import IsolatedError, IsolatedProcess, library_errors
from weft.text.specials import SPECIALS
from weft.text.vocabulary import check_text

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
