"""Unicode normalization and case, the same for every kind of tokenizer.

``nfc`` composes canonically equivalent characters (``e`` and an accent become ``é``, Korean letters a syllable);
``nfkc`` also replaces compatibility forms (full-width letters, ligatures, ``①``, no-break space). ``lowercase`` comes
next, letter by letter: ``İ`` becomes ``i`` and a dot, and a capital sigma ``σ`` wherever it stands.

Both are done by the `tokenizers` library, so that its version of Unicode, not Python's, decides, and a `tokenizer.json`
opened with that library alone does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import normalizers

from weft.errors import VocabularyError, nearest

FORMS = ("none", "nfc", "nfkc")


def normalizers_of(normalize: str, lowercase: bool) -> list[normalizers.Normalizer]:
    """The library's normalizers, in order."""
    if normalize not in FORMS:
        raise VocabularyError(f"normalize {normalize!r} is not known; {nearest(str(normalize), FORMS)}")
    steps: list[normalizers.Normalizer] = []
    if normalize != "none":
        steps.append(normalizers.NFC() if normalize == "nfc" else normalizers.NFKC())
    if lowercase:
        steps.append(normalizers.Lowercase())
    return steps


def normalizer(normalize: str, lowercase: bool) -> Callable[[str], str] | None:
    """A function that normalizes a text; None if there is nothing to do."""
    steps = normalizers_of(normalize, lowercase)
    function: Callable[[str], str] = normalizers.Sequence(steps).normalize_str
    return function if steps else None


def describe(normalize: str, lowercase: bool) -> str:
    """For people: ``nfkc, lowercase``, or ``none``."""
    names = [normalize] * (normalize != "none") + ["lowercase"] * lowercase
    return ", ".join(names) or "none"
