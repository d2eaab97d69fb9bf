"""Fonts for pictures: which of the installed ones can write a text.

Matplotlib brings DejaVu Sans: Latin, Greek, Cyrillic, Arabic, Armenian and Georgian letters and many signs, but neither
Chinese, Japanese and Korean nor the scripts of India. Where a text needs more, fonts installed on the machine are
searched for it. A picture is made in any case; a character that no font has is drawn as a box.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import NamedTuple

DEFAULT = "DejaVu Sans"
PREFERRED = ("Noto Sans", "Source Han", "WenQuanYi", "IPA", "Lohit", "FreeSans", "Arial Unicode", "Noto")
UNFIT = ("Last Resort", "LastResort", ".LastResort", "cm", "STIXNonUnicode", "STIXSize")
"""Name prefixes of fonts that draw a box for every character, or a mathematical symbol instead of a letter."""


class FontChoice(NamedTuple):
    """Font families in the order in which to search for a glyph, and the characters that no font has."""

    families: list[str]
    missing: str


def choose(text: str) -> FontChoice:
    """The default font, then the installed ones that are needed to write the text."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    default = findfont(FontProperties(family=DEFAULT))
    families = [DEFAULT]
    missing = {character for character in text if not character.isspace()} - _characters(default, 0)
    if missing:
        _add_new_system_fonts()
        upright = [font for font in fontManager.ttflist if font.style == "normal" and font.stretch == "normal"]
        for font in sorted(upright, key=lambda font: (_rank(font.name), abs(_weight(font.weight) - 400), font.name)):
            if font.name in families or font.name.startswith(UNFIT):
                continue
            covered = missing & _characters(font.fname, getattr(font, "index", 0))
            if covered:
                families.append(font.name)
                missing -= covered
            if not missing:
                break
    return FontChoice(families, "".join(sorted(missing)))


@cache
def _add_new_system_fonts() -> None:
    """Register fonts that were installed after matplotlib cached its list of them."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            with contextlib.suppress(RuntimeError, OSError):  # a bitmap font, or not a font at all
                fontManager.addfont(path)


def _rank(family: str) -> int:
    return next((rank for rank, prefix in enumerate(PREFERRED) if family.startswith(prefix)), len(PREFERRED))


def _weight(weight: int | str) -> int:
    from matplotlib.font_manager import weight_dict

    return weight if isinstance(weight, int) else weight_dict.get(weight, 400)


@cache
def _characters(path: str, face: int) -> frozenset[str]:
    """All characters for which a font file has a glyph; none if it cannot be drawn (bitmap fonts of emoji)."""
    from matplotlib.ft2font import FT2Font

    try:
        try:
            font = FT2Font(path, face_index=face)
        except TypeError:  # matplotlib < 3.11 always opens the first face of a collection
            font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap()))
    except (RuntimeError, OSError):
        return frozenset()
