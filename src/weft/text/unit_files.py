"""What tokenizers of units share: counting with some symbols given, and their JSON file.

``{"weft_tokenizer": 1, "kind": "word", "symbols": [...], ...}``, given symbols first, then the most frequent first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text.specials import SPECIALS
from weft.text.vocabulary import Vocabulary, check_text

FORMAT = 1  # the newest file format this code reads, and the one it writes
FIRST = len(SPECIALS)


def checked(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        check_text(text)
        yield text


def count(found: Iterable[str], given: Iterable[str], size: int | None, minimum_count: int) -> Vocabulary:
    """The vocabulary of what is given, each once, and then of what is found most often."""
    first = dict.fromkeys(given)
    if size is not None and size < len(first) + FIRST + 1:
        raise VocabularyError(f"vocabulary: size {size} is too small; the least size is {len(first) + FIRST + 1}")
    rest = (symbol for symbol in found if symbol not in first) if first else found
    room = None if size is None else size - len(first)
    return Vocabulary([*first, *Vocabulary.count(rest, size=room, minimum_count=minimum_count).symbols])


def save(path: Path, kind: str, **content: object) -> None:
    save_text(path, json.dumps({"weft_tokenizer": FORMAT, "kind": kind, **content}, ensure_ascii=False, indent=0))


def read_choice(found: dict[str, Any], setting: str, name: str) -> bool:
    value = found.get(setting)
    if not isinstance(value, bool):
        raise VocabularyError(f"{name}: damaged: {setting} is {value!r}, expected true or false")
    return value


def read_symbols(found: dict[str, Any], name: str) -> list[str]:
    symbols = found.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise VocabularyError(f"{name}: damaged: it has no list of symbols")
    return symbols


def read_vocabulary(symbols: list[str], name: str, needed: set[str]) -> Vocabulary:
    if missing := needed.difference(symbols):
        raise VocabularyError(f"{name}: damaged: {min(missing)!r} is not among its symbols")
    try:
        return Vocabulary(symbols)
    except VocabularyError as error:
        raise VocabularyError(f"{name}: damaged: {error}") from None
