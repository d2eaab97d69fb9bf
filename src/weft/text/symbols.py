"""What is never cut: given symbols, and what regular expressions protect.

**Symbols** are strings such as ``<2de>`` or ``<turn>``. Each is exactly one token wherever it stands, is found in the
text as it is given (before normalization; the longest where several fit) and decodes to its own spelling.

**Protected patterns** are regular expressions of the Oniguruma kind (that of the `tokenizers` library, for every kind
of tokenizer): ``\\d+``, ``\\p{Lu}+``, ``\\{\\w+\\}``. They see the text between symbols after normalization. At each
place they are tried in the order given. What matches is a unit: nothing is joined across its edges. A match seen often
enough in learning has an id as a whole; others are cut inside. The most frequent ones have ids, at most a quarter of
all. Back references by number do not work: the patterns become one expression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Regex, normalizers, pre_tokenizers

from weft.errors import VocabularyError
from weft.text.specials import SPECIALS
from weft.text.vocabulary import check_text

BYTE_PIECES = tuple(f"<0x{value:02X}>" for value in range(256))
_RESERVED = frozenset((*SPECIALS, *BYTE_PIECES))
_PROBES = ("\ue000", "1", "a b", "x. -")


def check_symbols(symbols: Iterable[str], *, without: str = "") -> tuple[str, ...]:
    """The symbols as a tuple, or a one-line error; none may hold white space or a character of `without`."""
    found = tuple(symbols)
    for symbol in found:
        if not isinstance(symbol, str) or not symbol or symbol != "".join(symbol.split()):
            raise VocabularyError(f"symbol {symbol!r}: expected a text without white space, for example '<2de>'")
        check_text(symbol)
        if symbol in _RESERVED:
            raise VocabularyError(f"symbol {symbol!r}: is the spelling of a mark or a byte; choose another")
        for character in without:
            if character in symbol:
                raise VocabularyError(f"symbol {symbol!r}: holds {character}, which marks spaces; choose another")
        if found.count(symbol) > 1:
            raise VocabularyError(f"symbol {symbol!r}: given twice")
    return found


def symbol_pattern(symbols: Sequence[str]) -> re.Pattern[str] | None:
    """Finds the symbols, each match a group; None where there are none."""
    if not symbols:
        return None
    return re.compile("(" + alternatives(symbols) + ")")


def alternatives(symbols: Sequence[str]) -> str:
    """A regular expression for any of them, the longest first."""
    return "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))


def check_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns as a tuple, or a one-line error."""
    found = tuple(patterns)
    for pattern in found:
        try:
            check_text(pattern)
            Regex(pattern)
            empty = normalizers.Replace(Regex(rf"(?:{pattern})(?<=\A)"), "x")
            matches_nothing = any(empty.normalize_str(probe) != probe for probe in _PROBES)
        except Exception as error:  # the library raises plain Exception
            reason = " ".join(str(error).split()).removeprefix("Oniguruma error: ")
            raise VocabularyError(f"protect {pattern!r}: not a regular expression: {reason}") from None
        if matches_nothing:
            raise VocabularyError(f"protect {pattern!r}: matches the empty text; write it so that it cannot")
    return found


def together(patterns: Sequence[str]) -> str:
    """One expression for all patterns."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


class Protected:
    """Finds what the patterns match."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._matches = pre_tokenizers.Split(Regex(together(patterns)), "removed", invert=True)

    def find(self, text: str) -> list[tuple[int, int]]:
        """The places of the matches, in order."""
        return [place for _, place in self._matches.pre_tokenize_str(text)] if text else []

    def frequent(self, texts: Iterable[str], *, most: int, minimum_count: int) -> list[str]:
        """The matches that deserve an id: the most frequent first, then in code point order."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text[start:end] for start, end in self.find(text))
        kept = [match for match, times in counts.items() if times >= minimum_count]
        return sorted(kept, key=lambda match: (-counts[match], match))[:most]
