"""Special tokens: their ids, their names, and how a token is displayed.

They have the first ids of every vocabulary. They are ids only: text that spells one (``</s>`` typed by a user) is
ordinary text and never becomes the special token.
"""

from __future__ import annotations

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIALS = ("<unk>", "<s>", "</s>")
"""The name of each special token, by id."""
UNKNOWN_TEXT = "⁇"
"""U+2047: an unknown token in decoded text."""


def visible(token: str) -> str:
    """A token for display: a space as ``␣``, other unprintable characters as their code (``U+000A``)."""
    if token.isprintable() and " " not in token:
        return token
    return "".join("␣" if c == " " else c if c.isprintable() else f"U+{ord(c):04X}" for c in token)
