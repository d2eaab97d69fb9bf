"""Phrases that the messages of all readers share."""

from __future__ import annotations

QUOTED_CHARACTERS = 40


def quote(text: str) -> str:
    """A text in a message: truncated, and on one line."""
    return repr(text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…")


def column_phrase(column: int | str) -> str:
    """The name of a column in messages."""
    return f"column {column!r}"
