"""The child process that tries tokenizer files and protected patterns before they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

from tokenizers import Regex, pre_tokenizers

from weft.text.external_engines import SentencePieceEngine, TokenizersEngine
from weft.text.isolation import each, serve

REPETITIONS = 2000
"""Repetitions of a character in a text on which a slow expression takes too long, such as one of cubic time."""
MAX_CHARACTERS = 16


def check(source: str, characters: str) -> int:
    """Load a tokenizer, encode and decode with it; the largest of its ids. ``characters``: a file, byte by byte."""
    content = characters.encode("latin-1")
    text = content.decode("utf-8") if source == "tokenizers" else ""
    engine = TokenizersEngine(text) if source == "tokenizers" else SentencePieceEngine(content)
    ids = sorted(engine.ids())
    engine.special_ids()
    engine.content()
    expressions = "".join(_expressions(json.loads(text))) if text else ""
    with suppress(Exception):  # such a text is an error when it is used; a panic is not an Exception
        engine.decode(ids[:1000])
        for id in ids[:1000]:
            engine.token(id)
    for difficult in ("", "a b", *difficult_texts(expressions)):
        with suppress(Exception):
            engine.encode([difficult])
    return max(ids, default=0)


def try_patterns(patterns: list[str]) -> None:
    """Match each expression on texts that it may take too long on."""
    for pattern in each(patterns):
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        for text in difficult_texts(pattern):
            split.pre_tokenize_str(text)


def difficult_texts(expressions: str) -> Iterator[str]:
    """Repetitions of characters, and of pairs of characters, that end in one that matches nothing but ``.``."""
    own = dict.fromkeys(character for character in expressions if character.isalnum() or character in " _-,./@")
    characters = list(dict.fromkeys([*"a0 .", *own]))[:MAX_CHARACTERS]
    for character in characters:
        yield character * REPETITIONS + "\ue000"
    for first, second in product(characters[:6], repeat=2):
        if first != second:
            yield (first + second) * 40 + "\ue000"


def _expressions(value: Any) -> Iterator[str]:
    """The regular expressions in a `tokenizer.json`."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "Regex" and isinstance(item, str):
                yield item
            elif name not in ("vocab", "merges", "added_tokens"):
                yield from _expressions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _expressions(item)


if __name__ == "__main__":
    serve({"check": check, "try_patterns": try_patterns})
