"""Tokens as labels: every character visible, no control character passed on.

A token may contain spaces, line breaks, control characters, half a character or a lone accent. `visible` returns text
that is safe in a terminal and in XML and shows all of it; `shorten` fits it to a width in terminal cells (two for a
wide CJK character, none for a combining mark).
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len

SYMBOLS = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "□"}
JOINERS = "\u200c\u200d"


def visible(token: str) -> str:
    """The token with a symbol or a ⟨code⟩ for each invisible character: ``"a\\n"`` → ``a⏎``."""
    if not token:
        return "∅"
    label = "".join(_visible_character(token, index) for index in range(len(token)))
    return f"◌{label}" if unicodedata.category(label[0])[0] == "M" else label


def one_line(text: str) -> str:
    """Prose on one line: like `visible`, with its spaces kept."""
    return visible(text).replace("␣", " ")


def caption(title: str | None) -> str:
    """A title: like `visible`, with its spaces and line breaks kept."""
    return one_line(title).replace("⏎", "\n") if title else ""


def shorten(label: str, cells: int) -> str:
    """The label truncated to a number of terminal cells, with an ellipsis where something was removed."""
    if cell_len(label) <= cells:
        return label
    while label and cell_len(label) > cells - 1:
        label = label[:-1]
    return f"{label}…" if cells > 0 else ""


def left_to_right(label: str) -> str:
    """A label that a number may follow: a mark keeps the number to the right of Arabic and Hebrew letters."""
    has_right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in label)
    return f"{label}\u200e" if has_right_to_left else label


def _visible_character(token: str, index: int) -> str:
    character = token[index]
    if character in SYMBOLS:
        return SYMBOLS[character]
    if character in JOINERS and 0 < index < len(token) - 1:
        return character
    invisible = unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
    return f"⟨{ord(character):X}⟩" if invisible else character
