"""Fonts for pictures: which of those installed can write a text.

Matplotlib brings DejaVu Sans: Latin, Greek, Cyrillic, Arabic, Armenian and Georgian letters and many signs, but neither
Chinese, Japanese and Korean nor the scripts of India. Where a text needs more, fonts installed on the machine are
searched for it. A picture is made in any case; what no font has comes out as boxes.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import NamedTuple

DEFAULT = "DejaVu Sans"
PREFERRED = ("Noto Sans", "Source Han", "WenQuanYi", "IPA", "Lohit", "FreeSans", "Arial Unicode", "Noto")
UNFIT = ("Last Resort", "LastResort", ".LastResort", "cm", "STIXNonUnicode", "STIXSize")
"""Starts of the names of fonts that draw a box for every character, or a formula's sign in the place of a letter."""


class Choice(NamedTuple):
    """Font families in the order in which to look for a glyph, and the characters that none of them has."""

    families: list[str]
    missing: str


def choose(text: str) -> Choice:
    """The default font, then as few further installed ones as it takes to write the text."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    default = findfont(FontProperties(family=DEFAULT))
    families = [DEFAULT]
    missing = {character for character in text if not character.isspace()} - _characters(default, 0)
    if missing:
        _look_again()
        plain = [font for font in fontManager.ttflist if font.style == "normal" and font.stretch == "normal"]
        for font in sorted(plain, key=lambda font: (_rank(font.name), abs(_weight(font.weight) - 400), font.name)):
            if font.name in families or font.name.startswith(UNFIT):
                continue
            found = missing & _characters(font.fname, getattr(font, "index", 0))
            if found:
                families.append(font.name)
                missing -= found
            if not missing:
                break
    return Choice(families, "".join(sorted(missing)))


@cache
def _look_again() -> None:
    """Make fonts known that were installed after matplotlib made its list of them."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            with contextlib.suppress(RuntimeError, OSError):  # a bitmap font, or not a font at all
                fontManager.addfont(path)


def _rank(family: str) -> int:
    return next((rank for rank, start in enumerate(PREFERRED) if family.startswith(start)), len(PREFERRED))


def _weight(weight: int | str) -> int:
    from matplotlib.font_manager import weight_dict

    return weight if isinstance(weight, int) else weight_dict.get(weight, 400)


@cache
def _characters(path: str, face: int) -> frozenset[str]:
    """All characters a font file has a glyph for; none if it cannot be drawn with (bitmap fonts of emoji)."""
    from matplotlib.ft2font import FT2Font

    try:
        try:
            font = FT2Font(path, face_index=face)
        except TypeError:  # matplotlib < 3.11 always opens the first face of a collection
            font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap()))
    except (RuntimeError, OSError):
        return frozenset()
