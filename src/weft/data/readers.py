"""Corpora of pairs: one tab-separated file, two files whose lines belong together, or chosen columns of a table.

A tab-separated line is ``source TAB target`` or ``source TAB target TAB links``, the links in Pharaoh format
(``0-0 1-2``: source word 0 with target word 0, source word 1 with target word 2; words as `weft.text.words` cuts
them). Pairs with a blank side are yielded as they are: whoever trains on them drops and counts them.

In a table, columns are counted from 1 and those of a side are joined by one space, without the empty ones. A column
of features, as in UniMorph, can be written as tags: ``N;ABL(PL;PSS(1,PL))`` → ``<N><ABL(PL;PSS(1,PL))>``, one for
each feature; a semicolon in parentheses separates nothing. The character tokenizer can read a tag as one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from weft.data.lines import display_name, read_lines
from weft.data.pairs import Pair
from weft.errors import DataError
from weft.files import replacing
from weft.text.words import words

_LINKS = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?: [0-9]{1,9}-[0-9]{1,9})*)?")


def read_pairs(path: Path | str) -> Iterator[Pair]:
    """The pairs of a tab-separated file."""
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) == 2:
            yield Pair(columns[0], columns[1])
        elif len(columns) == 3:
            where = f"{display_name(path)}:{number}"
            yield _check_links(Pair(columns[0], columns[1], _read_links(columns[2], where)), where)
        else:
            found = _columns(len(columns))
            raise DataError(f"{display_name(path)}:{number}: {found}, expected 2 (source, tab, target)")


def read_parallel(source_path: Path | str, target_path: Path | str) -> Iterator[Pair]:
    """The pairs of two files, line by line; files of unequal length are an error, raised at the shorter one's end."""
    if str(source_path) == "-" and str(target_path) == "-":
        raise DataError("source and target cannot both be standard input")
    counts = [0, 0]
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None and counts[0] == counts[1]:
            yield Pair(source, target)
    if counts[0] != counts[1]:
        raise DataError(
            f"{display_name(source_path)} has {_lines(counts[0])}, {display_name(target_path)} has "
            f"{_lines(counts[1])}; line by line they must belong together"
        )


def read_table(
    path: Path | str, *, source: Sequence[int], target: Sequence[int], tags: Sequence[int] = ()
) -> Iterator[Pair]:
    """The pairs of a table: which columns make up each side, and which of them list features."""
    last = max(*source, *target)
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        where = f"{display_name(path)}:{number}"
        if len(columns) < last:
            raise DataError(f"{where}: {_columns(len(columns))}, but column {last} was asked for")
        for column in set(tags):
            columns[column - 1] = _tags(columns[column - 1], f"{where}: column {column}")
        yield Pair(_joined(columns, source), _joined(columns, target))


def write_pairs(path: Path | str, pairs: Iterable[Pair]) -> int:
    """Write a tab-separated file that `read_pairs` reads back, atomically; the number of pairs written."""
    count = 0
    try:
        with replacing(Path(path)) as file:
            for pair in pairs:
                file.write(_line(pair, f"{path}: pair {count + 1}", first=count == 0))
                count += 1
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror or error}") from None
    return count


def _read_links(text: str, where: str) -> tuple[tuple[int, int], ...]:
    if not _LINKS.fullmatch(text):
        raise DataError(f"{where}: the third column, {_shown(text)}, is not a list of links such as '0-0 1-2'")
    ends = [link.split("-") for link in text.split()]
    return tuple((int(left), int(right)) for left, right in ends)


def _check_links(pair: Pair, where: str) -> Pair:
    lengths = len(words(pair.source)), len(words(pair.target))
    for left, right in pair.links or ():
        if not (0 <= left < lengths[0] and 0 <= right < lengths[1]):
            raise DataError(
                f"{where}: link {left}-{right} points outside the pair, "
                f"which has {lengths[0]} source and {lengths[1]} target words"
            )
    return pair


def _line(pair: Pair, where: str, *, first: bool) -> bytes:
    """A pair as a line; what `read_pairs` would read back differently is refused."""
    columns = [pair.source, pair.target]
    if pair.links is not None:
        _check_links(pair, where)
        columns.append(" ".join(f"{left}-{right}" for left, right in pair.links))
    for text in columns:
        for character, called in (("\t", "a tab"), ("\n", "a line end")):
            if character in text:
                raise DataError(f"{where}: {called} in the text: {text[:40]!r}")
    if columns[-1].endswith("\r"):
        raise DataError(f"{where}: the text ends in a carriage return: {columns[-1][-40:]!r}")
    if first and pair.source.startswith("\ufeff"):
        raise DataError(f"{where}: the file would begin with a byte order mark")
    try:
        return ("\t".join(columns) + "\n").encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: a lone surrogate in the text, which UTF-8 cannot write") from None


def _joined(columns: Sequence[str], numbers: Sequence[int]) -> str:
    return " ".join(filter(None, (columns[number - 1] for number in numbers)))


def _tags(text: str, where: str) -> str:
    """A list of features as tags; no feature is empty, has white space or angle brackets, or an open parenthesis."""
    if not text:
        return ""
    features, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == ";" and not depth:
            features.append("")
        else:
            features[-1] += character
    if depth or not all(re.fullmatch(r"[^<>\s]+", feature) for feature in features):
        raise DataError(f"{where}, {_shown(text)}, is not a list of features such as 'N;ACC(PL)'")
    return "".join(f"<{feature}>" for feature in features)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
