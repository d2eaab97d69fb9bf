"""A two-way table between symbols and ids.

The marks of `weft.text.specials` come first. Then the symbols: the most frequent first, and among equally frequent
ones in code point order, so that the same text always gives the same ids, in whatever order it was read.

The marks are not in the table that is looked up: a symbol spelled ``</s>`` has an id of its own, or is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from weft.errors import VocabularyError
from weft.text.specials import SPECIALS, UNKNOWN


class Vocabulary:
    """Symbols with their ids: ``vocabulary[symbol]`` and ``vocabulary.symbol(id)``."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        first = len(SPECIALS)
        self._ids = {symbol: first + place for place, symbol in enumerate(self.symbols)}
        if len(self._ids) != len(self.symbols):
            twice = next(symbol for symbol, times in Counter(self.symbols).items() if times > 1)
            raise VocabularyError(f"vocabulary: the symbol {twice!r} stands in it twice")
        self._spellings = SPECIALS + self.symbols

    @classmethod
    def count(cls, symbols: Iterable[str], *, size: int | None = None, minimum_count: int = 1) -> Vocabulary:
        """The vocabulary of the symbols seen at least `minimum_count` times; `size` counts the marks too."""
        least = len(SPECIALS) + 1
        if size is not None and size < least:
            raise VocabularyError(f"vocabulary: size {size} is too small; the least size is {least}")
        if minimum_count < 1:
            raise VocabularyError(f"vocabulary: minimum count {minimum_count}, expected 1 or more")
        counts = Counter(symbols)
        if not counts:
            raise VocabularyError("vocabulary: there is no text to learn from")
        kept = [symbol for symbol, times in counts.items() if times >= minimum_count]
        if not kept:
            raise VocabularyError(f"vocabulary: no symbol occurs {minimum_count} times; lower the minimum count")
        kept.sort(key=lambda symbol: (-counts[symbol], symbol))
        return cls(kept if size is None else kept[: size - len(SPECIALS)])

    def extended(self, symbols: Iterable[str], *, minimum_count: int = 1) -> Vocabulary:
        """This vocabulary with the new ones among the symbols behind it: ids that were given stay as they are."""
        counts = Counter(symbol for symbol in symbols if symbol not in self._ids)
        new = [symbol for symbol, times in counts.items() if times >= minimum_count]
        return Vocabulary([*self.symbols, *sorted(new, key=lambda symbol: (-counts[symbol], symbol))])

    def __len__(self) -> int:
        return len(self._spellings)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._ids

    def __getitem__(self, symbol: str) -> int:
        """The id of a symbol; the unknown's id if it has none."""
        return self._ids.get(symbol, UNKNOWN)

    def ids(self, symbols: Iterable[str]) -> list[int]:
        find = self._ids.get
        return [find(symbol, UNKNOWN) for symbol in symbols]

    def symbol(self, id: int) -> str:
        """The spelling of an id; of a mark too."""
        check_ids((id,), len(self))
        return self._spellings[id]


def check_ids(ids: Sequence[int], size: int) -> None:
    """Refuse ids that are not in a vocabulary of this size."""
    for extreme in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= extreme < size:
            raise VocabularyError(f"id {extreme} is not in the vocabulary, which has the ids 0 to {size - 1}")


def check_text(text: str) -> None:
    """Refuse a string that is not text: half of a surrogate pair cannot be written in UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise VocabularyError(f"character {error.start + 1} is a lone surrogate (U+{code:04X}), not text") from None
