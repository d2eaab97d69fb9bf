"""Splitting a line into words.

A line is split at white space; within a chunk every punctuation mark or symbol is a separate word, except that

- an apostrophe stays with the letters before it if letters follow (French elision: ``l'ami`` → ``l'`` ``ami``);
- a hyphen or an underscore between letters stays inside its word (``vingt-deux``, ``arc-en-ciel``);
- a dot or a comma between digits stays inside its number (``3.14``).

Combining marks belong to the letter they follow, so the rule holds for scripts written with them. Text without
spaces between words (Chinese, Thai) comes out as whole runs: use characters, bytes or BPE there.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

APOSTROPHES = "'’"


class Word(NamedTuple):
    """One word and its span: ``line[start:end] == text``."""

    text: str
    start: int
    end: int


def split(line: str) -> list[Word]:
    """The words of a line with their spans."""
    words: list[Word] = []
    for chunk in chunks(line):
        start = chunk.start
        for word in _split_chunk(chunk.text):
            words.append(Word(word, start, start + len(word)))
            start += len(word)
    return words


def chunks(line: str) -> list[Word]:
    """The parts of a line between white space, with their spans."""
    parts: list[Word] = []
    start = 0
    for chunk in line.split():
        start = line.index(chunk, start)
        parts.append(Word(chunk, start, start + len(chunk)))
        start += len(chunk)
    return parts


def words(line: str) -> list[str]:
    """The words of a line: ``il m'a entarté.`` → ``il`` ``m'`` ``a`` ``entarté`` ``.``"""
    return [word for chunk in line.split() for word in _split_chunk(chunk)]


@lru_cache(maxsize=1 << 16)
def _split_chunk(chunk: str) -> tuple[str, ...]:
    """The words of a chunk that has no white space."""
    if chunk.isalnum():
        return (chunk,)
    words: list[str] = []
    current = ""
    for index, character in enumerate(chunk):
        following = chunk[index + 1 : index + 2]
        if not _is_punctuation(character):
            current += character
        elif current and character in APOSTROPHES and following.isalpha():
            words.append(current + character)
            current = ""
        elif current and following and _joins(current[-1], character, following):
            current += character
        else:
            words += [current] if current else []
            words.append(character)
            current = ""
    return (*words, current) if current else tuple(words)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _joins(before: str, punctuation: str, after: str) -> bool:
    if punctuation in "-_‐‑":
        return not _is_punctuation(after)
    return punctuation in ".," and before.isdigit() and after.isdigit()
