"""Unicode normalization and case, the same for every kind of tokenizer.

``nfc`` composes what looks and means the same (``e`` and an accent become ``é``, Korean letters a syllable); ``nfkc``
also replaces compatibility forms by plain ones (full-width letters, ligatures, ``①``, no-break space). ``lowercase``
follows, letter by letter: ``İ`` becomes ``i`` and a dot, and a capital sigma ``σ`` wherever it stands.

Both are done by the `tokenizers` library, so that its version of Unicode, not Python's, decides, and a `tokenizer.json`
opened with that library alone does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import normalizers

from weft.errors import VocabularyError, nearest

FORMS = ("none", "nfc", "nfkc")


def steps(normalize: str, lowercase: bool) -> list[normalizers.Normalizer]:
    """The library's normalizers, in order."""
    if normalize not in FORMS:
        raise VocabularyError(f"normalize {normalize!r} is not known; {nearest(str(normalize), FORMS)}")
    found: list[normalizers.Normalizer] = []
    if normalize != "none":
        found.append(normalizers.NFC() if normalize == "nfc" else normalizers.NFKC())
    if lowercase:
        found.append(normalizers.Lowercase())
    return found


def function(normalize: str, lowercase: bool) -> Callable[[str], str] | None:
    """What normalizes a text; None where nothing is to be done."""
    found = steps(normalize, lowercase)
    together: Callable[[str], str] = normalizers.Sequence(found).normalize_str
    return together if found else None


def described(normalize: str, lowercase: bool) -> str:
    """For people: ``nfkc, lowercase``, or ``none``."""
    named = [normalize] * (normalize != "none") + ["lowercase"] * lowercase
    return ", ".join(named) or "none"
