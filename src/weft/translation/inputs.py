"""Texts and pairs as users give them: lists, tuples, generators, columns of a table; all else is an error.

A text where several are expected would be read letter by letter, and a missing value of a table is a float: both are
refused here, with the name of the argument and what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import ColumnCountError, DataError, InputTooLongError, SearchError, plural
from weft.text import specials

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.data.store.token_store import PairStore
    from weft.text.id_rows import IdRows
    from weft.text.tokenizer import Tokenizers

MAX_SOURCE_TOKENS = 10_000
"""The longest source that is translated; more where the model was trained on longer ones (data.max_length)."""
SHOWN = 40
"""Characters of a value that an error message shows."""


def describe(value: Any) -> str:
    """A value in an error message: ``None``, ``b'abc' (bytes)``, ``a list``."""
    if value is None:
        return "None"
    if isinstance(value, str | bytes | int | float | bool):
        text = repr(value)
        return f"{text if len(text) <= SHOWN else f'{text[:SHOWN]}…'} ({type(value).__name__})"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def as_text(value: Any, name: str) -> str:
    """One text."""
    if isinstance(value, str):
        return value
    hint = "; decode it: value.decode('utf-8')" if isinstance(value, bytes) else ""
    raise DataError(f"{name}: {describe(value)} was given, expected a text (str){hint}")


def as_texts(value: Any, name: str) -> list[str]:
    """Several texts, from anything that yields them."""
    if isinstance(value, str):
        raise DataError(f"{name}: {describe(value)} was given, expected several texts; put it in a list")
    texts = list(_items(value, name, "texts (str)"))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            as_text(text, f"{name}[{index}]")
    return texts


def encode_prefixes(
    prefix: str | Sequence[str], sources: Sequence[str], encode: Callable[[str, str], list[int]]
) -> list[list[int]]:
    """The ids that each output begins with: of one text for all sources, or of a text for each.

    ``encode``: the ids of a target of a source.
    """
    texts = [prefix] * len(sources) if isinstance(prefix, str) else as_texts(prefix, "prefix")
    if len(texts) != len(sources):
        raise SearchError(f"prefix: {len(texts)} were given for {len(sources)} sources; give one for each")
    prefixes = [encode(text, source) if text else [] for text, source in zip(texts, sources, strict=True)]
    for text, ids in zip(texts, prefixes, strict=True):
        if specials.UNKNOWN in ids:
            raise SearchError(
                f"search.prefix: {text!r} has symbols that are not in this model's vocabulary; leave them out"
            )
    return prefixes


def as_source(value: Any, name: str, *, columns: int = 1) -> str:
    """One source: a text or, for a model that reads several columns, a tuple of their texts."""
    if columns > 1 and isinstance(value, tuple):
        if len(value) != columns:
            raise ColumnCountError(f"{name}: a tuple of {plural(len(value), 'column')} was given, expected {columns}")
        texts = [as_text(text, f"{name}[{index}]") for index, text in enumerate(value)]
        return "\t".join(text.replace("\t", " ") for text in texts)
    return as_text(value, name)


def as_sources(value: Any, name: str, *, columns: int = 1) -> list[str]:
    """Several sources, from anything that yields them."""
    if columns == 1 or isinstance(value, str):
        return as_texts(value, name)
    items = enumerate(_items(value, name, "sources"))
    return [as_source(item, f"{name}[{index}]", columns=columns) for index, item in items]


def as_pairs(value: Any, name: str = "pairs") -> list[Pair]:
    """Several pairs: `Pair`, or tuples or lists of a source and a target."""
    from weft.data.pairs import Pair

    if isinstance(value, Pair):
        raise DataError(f"{name}: one pair was given, expected several; put it in a list")
    return [_as_pair(item, f"{name}[{index}]") for index, item in enumerate(_items(value, name, "pairs"))]


def _as_pair(item: Any, name: str) -> Pair:
    from weft.data.pairs import Pair

    if not isinstance(item, tuple | list) or not 2 <= len(item) <= len(Pair._fields):
        length = f" of {len(item)}" if isinstance(item, tuple | list) else ""
        raise DataError(f"{name}: {describe(item)}{length} was given, expected a pair: weft.Pair(source, target)")
    as_text(item[0], f"{name}.source")
    as_text(item[1], f"{name}.target")
    return item if isinstance(item, Pair) else Pair(*item)


def _items(value: Any, name: str, expected: str) -> Iterable[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise DataError(f"{name}: {describe(value)} was given, expected a list of {expected}")
    return value


def max_tokens(training_limit: int) -> int:
    """The tokens of the longest text that is translated or scored; ``training_limit``: data.max_length of the run."""
    return max(MAX_SOURCE_TOKENS, 10 * training_limit)


def is_within(limit: int, tokenizers: Tokenizers, *, source: str = "", target: str = "") -> bool:
    """Whether texts have at most ``limit`` tokens each, with those around them."""
    if 10 * max(len(source), len(target)) < limit:  # so few characters never have as many tokens
        return True
    frame = tokenizers.frame
    sides = frame.source(tokenizers.source.encode(source)), frame.target(tokenizers.target.encode(target))
    return max(map(len, sides)) <= limit


def checked_pairs(pairs: PairStore, *, training_limit: int) -> PairStore:
    """Pairs to score; an error if one is far longer than the training pairs, as in `check_lengths`."""
    limit = max_tokens(training_limit)
    for side, store in (("source", pairs.source), ("target", pairs.target)):
        longest = int(np.diff(store.offsets).max(initial=0))
        if longest > limit:
            raise InputTooLongError(
                f"a {side} of {longest:,} tokens; at most {limit:,} are scored (10,000, or 10 times data.max_length); "
                "split it"
            )
    return pairs


def check_lengths(encoded: IdRows, *, training_limit: int) -> None:
    """Refuse sources that are far longer than all that the model was trained on: they take time and memory.

    ``training_limit``: data.max_length of the run.
    """
    limit = max_tokens(training_limit)
    longest = int(encoded.lengths_B.max(initial=0))
    if longest > limit:
        raise InputTooLongError(
            f"a source of {longest:,} tokens; at most {limit:,} are translated (10,000, or 10 times "
            "data.max_length); split it"
        )
