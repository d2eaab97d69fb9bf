"""Names of columns, and whether the first row of a table is a header."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from weft.data.reading.delimited import column_names

SOURCE_NAMES = frozenset(
    [
        *("source", "src", "input", "in", "question", "query", "text", "document", "article", "body", "lemma"),
        *("word", "grapheme", "spelling", "prompt", "context", "x"),
    ]
)
TARGET_NAMES = frozenset(
    [
        *("target", "tgt", "trg", "output", "out", "answer", "sql", "code", "summary", "title", "subject", "form"),
        *("phones", "phonemes", "pronunciation", "ipa", "translation", "reply", "response", "label", "y"),
    ]
)
INSTRUCTION_NAMES = ("instruction", "input", "output")
FEATURE_NAMES = frozenset(["features", "feats", "tags", "msd", "morphology", "pos", "tag", "category", "class"])
LANGUAGES = frozenset(
    [
        *("ar", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "ga", "gl"),
        *("he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "ko", "la", "lt", "lv", "mk", "mr", "ms", "mt"),
        *("nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "th", "tr", "uk", "ur"),
        *("vi", "zh", "eng", "deu", "fra", "fre", "ger", "spa", "ita", "por", "rus", "jpn", "kor", "zho"),
    ]
)
LANGUAGE_NAMES = frozenset(
    [
        *("arabic", "basque", "bulgarian", "catalan", "chinese", "croatian", "czech", "danish", "dutch", "english"),
        *("estonian", "finnish", "french", "german", "greek", "hebrew", "hindi", "hungarian", "irish", "italian"),
        *("japanese", "korean", "latin", "latvian", "lithuanian", "norwegian", "persian", "polish", "portuguese"),
        *("romanian", "russian", "serbian", "slovak", "slovenian", "spanish", "swahili", "swedish", "turkish"),
        *("ukrainian", "urdu", "vietnamese", "welsh"),
    ]
)
_NAME_WORDS = 3
"""Words that the name of a column has at most: "English words/sentences"."""
OTHER_NAMES = frozenset(
    ["id", "index", "number", "language", "lang", "score", "split", "source_id", "domain", "alignment", "links"]
)
NAMED_SIDES = SOURCE_NAMES | TARGET_NAMES | FEATURE_NAMES
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
"""A name that a program would give to a column: ``a``, ``english_text``."""
_NUMBER = re.compile(r"\s*-?\d+([.,]\d+)*\s*")
_FEW_VALUES = 0.05
_NEIGHBORS, _MOST = 5, 0.95
"""A header differs from each of the rows below it, that many, and from this share of all rows."""


def _is_column_name(name: str) -> bool:
    """Whether a cell names a column: "source", "de", "German sentence"."""
    if name in SOURCE_NAMES | TARGET_NAMES | FEATURE_NAMES | LANGUAGES | OTHER_NAMES:
        return True
    words = re.findall(r"\w+", name)
    return len(words) <= _NAME_WORDS and not LANGUAGE_NAMES.isdisjoint(words)


def header_of(rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The names in the first row, if it is a header: the names are different, and known or unlike the rows below.

    At least two of them, or all, are known; or each is one word, and below them are numbers or several words.
    """
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    names = column_names([*rows[0]])
    if len({name.lower() for name in names}) < len(names):
        return None
    matches = sum(_is_column_name(name.lower()) for name in names)
    is_known = matches >= 2 and len(names) - matches <= matches
    return tuple(names) if is_known or _stands_out(names, rows[1:]) else None


def is_header_alone(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the only row has nothing but known names of columns."""
    names = [name.lower() for name in column_names([*rows[0]])]
    return len(rows) == 1 and len({*names}) == len(names) >= 2 and all(map(_is_column_name, names))


def _stands_out(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether names are single words that occur nowhere below them, above columns of other cells.

    One word above a column of numbers is a name; above columns of several words (or few classes) all must be.
    """
    if len(rows) < _NEIGHBORS or not all(map(_IDENTIFIER.fullmatch, names)):
        return False
    columns = [[row[index] for row in rows if len(row) == len(names)] for index in range(len(names))]
    if any(name in column for name, column in zip(names, columns, strict=True)):
        return False
    if any(_all_but_few(column, _NUMBER.fullmatch) for column in columns):
        return True
    texts = [column for column in columns if not has_few_values(column)]
    return bool(texts) and all(_all_but_few(column, _has_space) for column in texts)


def _all_but_few(cells: Sequence[str], predicate: Callable[[str], object]) -> bool:
    """Whether the first cells and nearly all others have a property."""
    first = cells[:_NEIGHBORS]
    return bool(first) and all(map(predicate, first)) and sum(map(bool, map(predicate, cells))) >= _MOST * len(cells)


def _has_space(cell: str) -> bool:
    return len(cell.split()) > 1


def has_few_values(cells: Sequence[str]) -> bool:
    """Whether a column has the same values again and again, as one of classes has."""
    return len(cells) >= 20 and len(set(cells)) <= max(2, _FEW_VALUES * len(cells))
