"""Ids for copying (``model.copy``): the same token in both vocabularies, and tokens that neither vocabulary has.

With Vs source and Vt target ids, a token of a source has

    an id below Vs        if the source vocabulary has it
    Vs + its target id    if only the target vocabulary has it
    Vs + Vt + k           if neither has it: the k-th such token of its sentence, counted from 0

and a token of a target that the target vocabulary lacks has the id Vt + i if the source has that token, i being its
first position there; else it is unknown. A model that copies reads and writes these ids (`weft.models.copying`).

Only characters and words can be unknown as a whole, so only their tokenizers have such ids (`HasSymbols`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count
from typing import NamedTuple, Protocol, Self, cast, runtime_checkable

from weft.text.specials import END, UNKNOWN
from weft.text.subwords import SubwordTokenizer
from weft.text.tokenizer import Tokenizer, Tokenizers
from weft.text.vocabulary import FIRST_SYMBOL_ID


@runtime_checkable
class HasSymbols(Protocol):
    """A tokenizer whose tokens are whole symbols, known or not."""

    def symbols(self, text: str) -> Sequence[str]:
        """The symbols of a text: one for every id of `encode`."""

    def symbol_ids(self, symbols: Sequence[str]) -> list[int]:
        """The ids of symbols; that of the unknown token where the vocabulary lacks one."""

    def id_symbols(self, ids: Sequence[int]) -> list[str]:
        """The symbols of ids; of a special token, its name."""

    def with_symbols(self, symbols: Sequence[str]) -> Self:
        """The tokenizer with ids for these symbols after its own; for decoding only."""


def target_ids(tokenizers: Tokenizers) -> list[int]:
    """For each source id the id of the same token in the target vocabulary; −1 if it has none.

    The same token is the same symbol, or a piece with the same text and the same boundary marks.
    """
    source, target = tokenizers
    if tokenizers.joint:
        return [id if id >= END else -1 for id in range(source.size)]
    source = getattr(source, "column_tokenizer", source)  # of every column of a source
    known = {key: id for id, key in enumerate(_token_keys(target)) if id >= FIRST_SYMBOL_ID}
    ids = [known.get(key, -1) for key in _token_keys(source)]
    return [END if id == END else -1 if id < END else target_id for id, target_id in enumerate(ids)]


def _token_keys(tokenizer: Tokenizer) -> Sequence[Hashable]:
    """The key that identifies each id's token in another vocabulary."""
    if isinstance(tokenizer, HasSymbols):
        return tokenizer.id_symbols(range(tokenizer.size))
    return tokenizer.token_bytes if isinstance(tokenizer, SubwordTokenizer) else tokenizer.tokens(range(tokenizer.size))


class SentencePair(NamedTuple):
    """A source's ids, and tokenizers that can read all ids of this sentence and of what is made of it."""

    tokenizers: Tokenizers
    source_ids: list[int]


class SentenceIds:
    """Makes the ids that hold for a single sentence, and reads them."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        """The tokenizers must have symbols: see `of`."""
        assert isinstance(tokenizers.source, HasSymbols) and isinstance(tokenizers.target, HasSymbols)
        self.source_symbols: HasSymbols = tokenizers.source
        self.target_symbols: HasSymbols = tokenizers.target
        self.source_size, self.target_size = tokenizers.source.size, tokenizers.target.size

    @classmethod
    def of(cls, tokenizers: Tokenizers) -> SentenceIds | None:
        """The copy table of two tokenizers; None if they have no such ids."""
        have_symbols = isinstance(tokenizers.source, HasSymbols) and isinstance(tokenizers.target, HasSymbols)
        return cls(tokenizers) if have_symbols else None

    def source(self, text: str, ids: Sequence[int]) -> list[int]:
        """The ids of a source text, given as `encode` returns them, without unknown tokens."""
        if UNKNOWN not in ids:
            return list(ids)
        symbols = self.source_symbols.symbols(text)
        unknown = list(dict.fromkeys(symbol for symbol, id in zip(symbols, ids, strict=True) if id == UNKNOWN))
        own_ids = count(self.target_size)
        known = {
            symbol: self.source_size + (next(own_ids) if target_id == UNKNOWN else target_id)
            for symbol, target_id in zip(unknown, self.target_symbols.symbol_ids(unknown), strict=True)
        }
        return [known[symbol] if id == UNKNOWN else id for symbol, id in zip(symbols, ids, strict=True)]

    def target(self, text: str, ids: Sequence[int], source: str) -> list[int]:
        """The ids of a target text, given as `encode` returns them: an unknown token that is in the source is known."""
        if UNKNOWN not in ids:
            return list(ids)
        first: dict[str, int] = {}
        for position, symbol in enumerate(self.source_symbols.symbols(source)):
            first.setdefault(symbol, self.target_size + position)
        symbols = self.target_symbols.symbols(text)
        return [first.get(symbol, UNKNOWN) if id == UNKNOWN else id for symbol, id in zip(symbols, ids, strict=True)]

    def reading(self, source: str, source_ids: Sequence[int]) -> SentencePair:
        """Tokenizers that decode the ids of a sentence; ``source_ids`` become ids of the first of them."""
        symbols = self.source_symbols.symbols(source)
        tokenizers = Tokenizers(
            cast(Tokenizer, self.source_symbols.with_symbols(symbols)),
            cast(Tokenizer, self.target_symbols.with_symbols(symbols)),
        )
        size = self.source_size
        return SentencePair(tokenizers, [size + i if id >= size else id for i, id in enumerate(source_ids)])
