"""Files that are no UTF-8 text, recognized by their first bytes: other encodings, compressed files, workbooks, Parquet.

Without this check UTF-16 would be read as letters with NUL characters between them, and the message for an archive
would be about an invalid byte. A file in Latin-1 or another encoding of single bytes has no mark: its lines are not
valid UTF-8, and each of them is a row error.
"""

from __future__ import annotations

import codecs
import re

from weft.errors import DataError

SIGNATURE_BYTES = 1 << 12
"""Bytes at the beginning of a file that are examined."""
_NULLS = 0.25
"""The share of NULs above which valid UTF-8 is taken for another encoding; half of the bytes of English UTF-16 are."""
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
"""Bytes that no text has, in whatever encoding of single bytes."""
_CONTROL_SHARE = 0.05
"""The share of such bytes above which bytes that are not UTF-8 are binary data; a tenth of random bytes are."""
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins with that of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_RENAME = "though its name does not say so; decompress it, or rename it to end in"
_SIGNATURES = (
    (
        re.compile(rb"PK\x03\x04.{26}(?:\[Content_Types\]|_rels/|xl/)", re.DOTALL),
        "is an Excel workbook; save it as CSV",
    ),
    (re.compile(rb"PK\x03\x04"), "is a zip archive; unzip it"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "is an old Excel or Word file; save it as CSV"),
    (re.compile(rb"\x1f\x8b\x08"), f"is compressed with gzip, {_RENAME} .gz"),
    (re.compile(rb"BZh[1-9]1AY&SY"), f"is compressed with bzip2, {_RENAME} .bz2"),
    (re.compile(rb"\xfd7zXZ\0"), f"is compressed with xz, {_RENAME} .xz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), f"is compressed with zstd, {_RENAME} .zst"),
    (re.compile(rb"PAR1[\0-\x08\x0e-\x1f]"), "is a Parquet file; rename it to end in .parquet"),
)


def check_text(start: bytes, name: str) -> None:
    """Refuse a file that begins with these bytes if it is known to be no UTF-8 text."""
    if encoding := _encoding(start):
        raise DataError(
            f"{name}: is {encoding} text, expected UTF-8; convert it, e.g. with iconv -f {encoding} -t UTF-8"
        )
    for signature, message in _SIGNATURES:
        if signature.match(start):
            raise DataError(f"{name}: {message}")


def check_not_binary(start: bytes, name: str) -> None:
    """Refuse a pipe or device that begins with neither text nor a known kind of file, and may have no end."""
    start = start[:SIGNATURE_BYTES]
    is_known = any(signature.match(start) for signature, _ in _SIGNATURES)
    if is_known or _encoding(start) or _decode(start, "UTF-8") is not None:
        return
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if controls > _CONTROL_SHARE * len(start):
        raise DataError(f"{name}: is binary data, expected UTF-8 text")


def _encoding(start: bytes) -> str | None:
    """The encoding of several bytes a character that a text has: by its byte order mark or, without one, by its NULs.

    A text in UTF-16 has a NUL in each line end. Decoded it has none.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    start = start[:SIGNATURE_BYTES]
    nulls = start.count(0)
    if not nulls or (nulls < _NULLS * len(start) and _decode(start, "UTF-8") is not None):
        return None
    for encoding in ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE"):
        text = (_decode(start + bytes(3), encoding) or "").rstrip("\0")  # a first line ends within its line end
        if "\n" in text and "\0" not in text and text.strip():
            return encoding
    return None


def _decode(start: bytes, encoding: str) -> str | None:
    """The beginning of a text, which may end within a character; None if it has another encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeDecodeError:
        return None
