"""Cutting a line into words, and putting the words back.

A line is cut at white space; within a chunk every punctuation mark or symbol is a word of its own, except that

- an apostrophe stays with the letters before it when letters follow (French elision: ``l'ami`` → ``l'`` ``ami``);
- a hyphen or an underscore between letters stays inside its word (``vingt-deux``, ``arc-en-ciel``);
- a dot or a comma between digits stays inside its number (``3.14``).

Combining marks belong to the letter they follow, so the rule holds for scripts written with them. Text without
spaces between words (Chinese, Thai) comes out as whole runs: use characters, bytes or BPE there.

`join` restores the line exactly if its words were separated by single spaces and it did not begin or end with one.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

APOSTROPHES = "'’"


class Word(NamedTuple):
    """One word and where it stands: ``line[start:end] == text``."""

    text: str
    start: int
    end: int


def split(line: str) -> list[Word]:
    """The words of a line with their places."""
    found: list[Word] = []
    for chunk in chunks(line):
        start = chunk.start
        for piece in _cut(chunk.text):
            found.append(Word(piece, start, start + len(piece)))
            start += len(piece)
    return found


def chunks(line: str) -> list[Word]:
    """What stands between white space, with its places."""
    found: list[Word] = []
    start = 0
    for chunk in line.split():
        start = line.index(chunk, start)
        found.append(Word(chunk, start, start + len(chunk)))
        start += len(chunk)
    return found


def words(line: str) -> list[str]:
    """The words of a line: ``il m'a entarté.`` → ``il`` ``m'`` ``a`` ``entarté`` ``.``"""
    return [piece for chunk in line.split() for piece in _cut(chunk)]


@lru_cache(maxsize=1 << 16)
def _cut(chunk: str) -> tuple[str, ...]:
    """The words of a chunk that has no white space."""
    if chunk.isalnum():
        return (chunk,)
    pieces: list[str] = []
    current = ""
    for place, character in enumerate(chunk):
        following = chunk[place + 1 : place + 2]
        if not _is_mark(character):
            current += character
        elif current and character in APOSTROPHES and following.isalpha():
            pieces.append(current + character)
            current = ""
        elif current and following and _holds_together(current[-1], character, following):
            current += character
        else:
            pieces += [current] if current else []
            pieces.append(character)
            current = ""
    return (*pieces, current) if current else tuple(pieces)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _holds_together(before: str, mark: str, after: str) -> bool:
    if mark in "-_‐‑":
        return not _is_mark(after)
    return mark in ".," and before.isdigit() and after.isdigit()
