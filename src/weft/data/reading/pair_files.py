"""Reading pairs from a tab-separated file in one process, and writing them.

Reading raises the first row error. Pairs with a blank side are yielded as they are: training drops and counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from weft.data.pairs import Pair
from weft.data.reading.compression import open_compressed
from weft.data.reading.corpora import pair_file, read
from weft.data.reading.links import check_links
from weft.data.reading.text_files import RecordError
from weft.errors import DataError
from weft.files import replacing


def read_pairs(path: Path | str, *, sources: int = 1) -> Iterator[Pair]:
    """The pairs of a tab-separated file; ``sources``: the number of source columns."""
    return read(pair_file(str(path), sources=sources))


def write_pairs(path: Path | str, pairs: Iterable[Pair]) -> int:
    """Write a tab-separated file that `read_pairs` reads back, compressed by its name, atomically; return the count."""
    count = 0
    try:
        with replacing(Path(path)) as raw_file, open_compressed(path, raw_file) as file:
            for pair in pairs:
                file.write(_line(pair, f"{path}: pair {count + 1}", first=count == 0))
                count += 1
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror or error}") from None
    return count


def _line(pair: Pair, where: str, *, first: bool) -> bytes:
    """A pair as a line; what `read_pairs` would read back differently is refused."""
    columns = [pair.source, pair.target]
    if pair.links is not None:
        try:
            check_links(pair)
        except RecordError as error:
            raise DataError(f"{where}: {error}") from None
        columns.append(" ".join(f"{left}-{right}" for left, right in pair.links))
    for text in columns:
        for character, name in (("\t", "a tab"), ("\n", "a line end")):
            if character in text:
                raise DataError(f"{where}: {name} in the text: {text[:40]!r}")
    if columns[-1].endswith("\r"):
        raise DataError(f"{where}: the text ends in a carriage return: {columns[-1][-40:]!r}")
    if first and pair.source.startswith("\ufeff"):
        raise DataError(f"{where}: the file would begin with a byte order mark")
    try:
        return ("\t".join(columns) + "\n").encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: a lone surrogate in the text, which UTF-8 cannot write") from None
