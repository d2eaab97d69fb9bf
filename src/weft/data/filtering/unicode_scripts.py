"""The script (writing system) of a character, and how many letters of each a text has.

Python's `unicodedata` does not carry Unicode's script property, but the names of letters do: CYRILLIC SMALL LETTER A,
CJK UNIFIED IDEOGRAPH-4E00. `script_of` reads them, with a short list of exceptions. Over all letters of Unicode 14 it
agrees with the property (checked by tests/data/filtering/test_unicode_scripts.py); letters newer than the Python
in use have no name there and count as Common.

Known limits: only letters and combining marks have a script here; digits, punctuation and symbols are Common, also
where Unicode gives them one. Marks that several scripts share are Common (Unicode: Inherited), a few of them carry
one script's name all the same (ARABIC FATHA). Han is one script: it does not tell Chinese from Japanese.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

COMMON = "Common"
_NAMES = """Adlam, Ahom, Arabic, Armenian, Avestan, Balinese, Bamum, Bassa Vah, Batak, Bengali, Bhaiksuki, Bopomofo,
Brahmi, Buginese, Buhid, Carian, Caucasian Albanian, Chakma, Cham, Cherokee, Chorasmian, Coptic, Cuneiform, Cypriot,
Cyrillic, Deseret, Devanagari, Dives Akuru, Dogra, Duployan, Elbasan, Elymaic, Ethiopic, Georgian, Glagolitic, Gothic,
Grantha, Greek, Gujarati, Gunjala Gondi, Gurmukhi, Hangul, Hanifi Rohingya, Hanunoo, Hatran, Hebrew, Hiragana,
Imperial Aramaic, Inscriptional Pahlavi, Inscriptional Parthian, Javanese, Kaithi, Kannada, Katakana, Kawi, Kayah Li,
Kharoshthi, Khitan Small Script, Khmer, Khojki, Khudawadi, Lao, Latin, Lepcha, Limbu, Linear A, Linear B, Lisu,
Lycian, Lydian, Mahajani, Makasar, Malayalam, Mandaic, Manichaean, Marchen, Masaram Gondi, Medefaidrin, Meetei Mayek,
Mende Kikakui, Meroitic Cursive, Miao, Modi, Mongolian, Mro, Multani, Myanmar, Nabataean, Nag Mundari, Nandinagari,
New Tai Lue, Newa, Nko, Nushu, Nyiakeng Puachue Hmong, Ogham, Ol Chiki, Old Hungarian, Old Italic, Old North Arabian,
Old Permic, Old Persian, Old Sogdian, Old South Arabian, Old Turkic, Old Uyghur, Oriya, Osage, Osmanya, Pahawh Hmong,
Palmyrene, Pau Cin Hau, Phoenician, Psalter Pahlavi, Rejang, Runic, Samaritan, Saurashtra, Sharada, Shavian, Siddham,
Sinhala, Sogdian, Sora Sompeng, Soyombo, Sundanese, Syloti Nagri, Syriac, Tagalog, Tagbanwa, Tai Le, Tai Tham, Tai
Viet, Takri, Tamil, Tangsa, Tangut, Telugu, Thaana, Thai, Tibetan, Tifinagh, Tirhuta, Toto, Ugaritic, Vai, Vithkuqi,
Wancho, Warang Citi, Yezidi, Yi, Zanabazar Square""".replace("\n", " ").split(", ")
_OTHER_NAMES = {
    "ANATOLIAN HIEROGLYPH": "Anatolian Hieroglyphs",
    "CANADIAN SYLLABICS": "Canadian Aboriginal",
    "CJK": "Han",
    "CYPRO-MINOAN": "Cypro Minoan",
    "EGYPTIAN HIEROGLYPH": "Egyptian Hieroglyphs",
    "HENTAIGANA": "Hiragana",
    "IDEOGRAPHIC ITERATION MARK": "Han",
    "MEROITIC HIEROGLYPHIC": "Meroitic Hieroglyphs",
    "OLD CHINESE ITERATION MARK": "Han",
    "PHAGS-PA": "Phags Pa",
}
SCRIPTS = (COMMON, *sorted({*_NAMES, *_OTHER_NAMES.values()}))
"""The names that `script_of` may return, spelled as in Unicode, with spaces."""

_PREFIXES = {**{name.upper(): name for name in _NAMES}, **_OTHER_NAMES}
_MAX_WORDS = max(name.count(" ") + 1 for name in _PREFIXES)
_EXCEPTIONS = {
    **dict.fromkeys("\u00aa\u00ba\u212a\u212b\u2132\u214e\u2183\u2184\ua7fb\U00010781\U00010782", "Latin"),
    "\u2126": "Greek",  # the sign for ohm
    **dict.fromkeys("\u02b9\u0374\u0640\u3006\u303c\ua9cf\uff9e\uff9f", COMMON),
}
_TANGUT = (range(0x17000, 0x187F8), range(0x18D00, 0x18D09))  # letters that Python 3.11 has no names for


@lru_cache(maxsize=1 << 16)
def script_of(character: str) -> str:
    """The script of a letter or mark; "Common" for all else: ``я`` → Cyrillic, ``语`` → Han, ``7`` → Common."""
    if unicodedata.category(character)[0] not in "LM":
        return COMMON
    if character in _EXCEPTIONS:
        return _EXCEPTIONS[character]
    name = unicodedata.name(character, "")
    for form in ("FULLWIDTH ", "HALFWIDTH ", "SUPERSCRIPT ", "VERTICAL "):
        name = name.removeprefix(form)
    if name.startswith("MODIFIER LETTER "):
        return _script_of_modifier(name.removeprefix("MODIFIER LETTER "), character)
    if not name and any(ord(character) in tangut for tangut in _TANGUT):
        return "Tangut"
    return _by_prefix(name)


def code_points(text: str) -> np.ndarray:
    """The characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


_UNKNOWN = 255
_script_indices = np.full(0, _UNKNOWN, np.uint8)


def letter_scripts(codes: np.ndarray) -> np.ndarray:
    """The index of each character's script in `SCRIPTS`; 0 if it is not a letter, or of no single script."""
    global _script_indices
    if not len(_script_indices):
        _script_indices = np.full(0x110000, _UNKNOWN, np.uint8)
    indices: np.ndarray = _script_indices[codes]
    unknown = indices == _UNKNOWN
    if unknown.any():
        for code in np.unique(codes[unknown]).tolist():
            _script_indices[code] = SCRIPTS.index(script_of(chr(code))) if chr(code).isalpha() else 0
        indices = _script_indices[codes]
    return indices


def letters_in(texts: Sequence[str], allowed: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The number of letters of allowed scripts, and of all letters, in each text."""
    indices = letter_scripts(code_points("".join(texts)))
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    is_allowed = np.isin(np.arange(len(SCRIPTS)), [SCRIPTS.index(name) for name in allowed if name != COMMON])
    return _sums(is_allowed[indices], ends), _sums(indices > 0, ends)


def _sums(flags: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Number of flags set in each of the segments that end at `ends`."""
    running = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])[np.concatenate([[0], ends])]
    return np.diff(running)


def _script_of_modifier(rest: str, character: str) -> str:
    """Raised and lowered letters name their script only if it is not Latin; accents, primes and tones have none."""
    base = unicodedata.normalize("NFKD", character)
    if base != character and base.isalpha():
        return script_of(base)
    return "Latin" if rest.startswith(("SMALL ", "CAPITAL ")) else _by_prefix(rest)


def _by_prefix(name: str) -> str:
    """The script whose name a character's name starts with, the longest if there are several."""
    words = name.split()
    prefixes = (" ".join(words[:count]) for count in range(_MAX_WORDS, 0, -1))
    return next((_PREFIXES[prefix] for prefix in prefixes if prefix in _PREFIXES), COMMON)
