"""The three marks that are no text: their ids, their spellings, and how an id is shown to a person.

They hold the first ids of every vocabulary. They are ids only: text spelled like a mark (``</s>`` typed by somebody) is
ordinary text and never becomes the mark's id.
"""

from __future__ import annotations

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIALS = ("<unk>", "<s>", "</s>")  # the place of a spelling is its id

UNKNOWN_TEXT = "⁇"  # U+2047: what an unknown becomes in decoded text


def visible(piece: str) -> str:
    """A piece as a picture shows it: a space as ``␣``, what cannot be printed as its code (``U+000A``)."""
    if piece.isprintable() and " " not in piece:
        return piece
    return "".join("␣" if c == " " else c if c.isprintable() else f"U+{ord(c):04X}" for c in piece)
