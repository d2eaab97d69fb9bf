"""Files that are no UTF-8 text: each is refused with its name and what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from random import Random

import pytest

from fixtures.corpus_rows import failure, write
from weft.data.reading.corpora import TextPairs
from weft.data.reading.lines import read_lines
from weft.data.reading.text_files import check_not_binary, check_text
from weft.errors import DataError

TEXT = "ein Wort\ta word\nzwei\ttwo\n"
RENAME = "though its name does not say so; decompress it, or rename it to end in"


def _archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return buffer.getvalue()


def _encoded(encoding: str) -> str:
    return f"is {encoding} text, expected UTF-8; convert it, e.g. with iconv -f {encoding} -t UTF-8"


FILES = {
    "UTF-16 with a mark": (TEXT.encode("utf-16"), _encoded("UTF-16")),
    "big-endian UTF-16 with a mark": (b"\xfe\xff" + TEXT.encode("utf-16-be"), _encoded("UTF-16")),
    "UTF-16LE": (TEXT.encode("utf-16-le"), _encoded("UTF-16LE")),
    "UTF-16BE": (TEXT.encode("utf-16-be"), _encoded("UTF-16BE")),
    "Chinese": ("中文\t字\n".encode("utf-16-le"), _encoded("UTF-16LE")),
    "UTF-16 cut within a surrogate pair": (("😀\n" * 1025).encode("utf-16-le"), _encoded("UTF-16LE")),
    "UTF-32": (TEXT.encode("utf-32"), _encoded("UTF-32")),
    "UTF-32LE": (TEXT.encode("utf-32-le"), _encoded("UTF-32LE")),
    "zip": (_archive("pairs.tsv"), "is a zip archive; unzip it"),
    "xlsx": (_archive("[Content_Types].xml", "xl/workbook.xml"), "is an Excel workbook; save it as CSV"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(9), "is an old Excel or Word file; save it as CSV"),
    "gzip": (gzip.compress(TEXT.encode()), f"is compressed with gzip, {RENAME} .gz"),
    "bzip2": (bz2.compress(TEXT.encode()), f"is compressed with bzip2, {RENAME} .bz2"),
    "xz": (lzma.compress(TEXT.encode()), f"is compressed with xz, {RENAME} .xz"),
    "zstd": (b"\x28\xb5\x2f\xfd\x24\x00", f"is compressed with zstd, {RENAME} .zst"),
    "Parquet": (b"PAR1\x15\x04\x15", "is a Parquet file; rename it to end in .parquet"),
}


@pytest.mark.parametrize("kind", FILES)
def test_refused(tmp_path: Path, kind: str) -> None:
    content, message = FILES[kind]
    path = write(tmp_path / "pairs.tsv", content)
    assert failure(TextPairs((path,))) == f"{path}: {message}"
    assert failure(lambda: read_lines(path)) == f"{path}: {message}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbfa\tb\n",
        b"a\0b\tc\n",
        b"PAR1\tthrombin\n",
        b"BZh\tx\n",
        b"PK\tx\n",
        b"\0\0\0\0\n",
        b"a\0\0\0",
        b"five,\0\n",
    ],
)
def test_text(content: bytes) -> None:
    check_text(content, "pairs.tsv")


def test_binary_data_is_no_pipe_of_text() -> None:
    noise = Random(1).randbytes(1 << 16)
    for start in (noise, noise[:100], b"\xff\x00\x01"):
        with pytest.raises(DataError, match=r"^/dev/urandom: is binary data, expected UTF-8 text$"):
            check_not_binary(start, "/dev/urandom")


UNSUSPICIOUS = {
    "empty": b"",
    "UTF-8": "größer\tgreater\n".encode() * 1000,
    "Latin-1, each line an error of its own": "größer\tgreater\n".encode("latin-1") * 1000,
    "a control character": b"gr\xf6\xdfer\x01" + b"a" * 100,
    "valid UTF-8": b"\0\1\2",
    "UTF-16, refused by its name": "größer\tgreater\n".encode("utf-16"),
    "gzip": gzip.compress(Random(1).randbytes(1000)),
    "bz2": bz2.compress(Random(1).randbytes(1000)),
    "lzma": lzma.compress(Random(1).randbytes(1000)),
    "Parquet": b"PAR1\x15" + Random(1).randbytes(1000),
}


@pytest.mark.parametrize("kind", UNSUSPICIOUS)
def test_what_may_be_text_or_a_known_file_is_read_on(kind: str) -> None:
    check_not_binary(UNSUSPICIOUS[kind], "-")
