"""Phrases that the messages of all readers share."""

from __future__ import annotations

QUOTED_CHARACTERS = 40


def quote(text: str) -> str:
    """A text in a message: truncated, and on one line."""
    return repr(text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…")


def plural(count: int, noun: str) -> str:
    """``1 column``, ``2 columns``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def column_phrase(column: int | str) -> str:
    """How messages name a column."""
    return f"column {column!r}"
