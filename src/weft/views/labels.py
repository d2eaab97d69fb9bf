"""Tokens as labels: everything in them visible, nothing in them obeyed.

A token may hold spaces, line ends, control characters, half a character or a lone accent. `visible` gives text that
is safe in a terminal and in XML and shows all of it; `shorten` fits it to a width counted in terminal cells (two for
a wide CJK character, none for a combining mark).
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len

SIGNS = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "□"}
JOINERS = "\u200c\u200d"


def visible(token: str) -> str:
    """The token with a sign or a ⟨code⟩ for each character that has no look of its own: ``"a\\n"`` → ``a⏎``."""
    if not token:
        return "∅"
    shown = "".join(_sign(token, place) for place in range(len(token)))
    return f"◌{shown}" if unicodedata.category(shown[0])[0] == "M" else shown


def shorten(label: str, cells: int) -> str:
    """The label cut to so many terminal cells, with an ellipsis where something was cut."""
    if cell_len(label) <= cells:
        return label
    while label and cell_len(label) > cells - 1:
        label = label[:-1]
    return f"{label}…" if cells > 0 else ""


def _sign(token: str, place: int) -> str:
    character = token[place]
    if character in SIGNS:
        return SIGNS[character]
    if character in JOINERS and 0 < place < len(token) - 1:
        return character
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
    return f"⟨{ord(character):X}⟩" if hidden else character
