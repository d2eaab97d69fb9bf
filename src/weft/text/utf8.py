"""From the bytes of tokens to text, and to spans in that text.

Bytes that are not valid UTF-8 become U+FFFD, one for each run that Python's decoder replaces as a whole. A character
split over several tokens is part of each of their spans.
"""

from __future__ import annotations

from collections.abc import Sequence


def decode_bytes(parts: Sequence[bytes]) -> str:
    return b"".join(parts).decode("utf-8", errors="replace")


def spans_of_bytes(parts: Sequence[bytes]) -> list[tuple[int, int]]:
    """The span of each part in ``decode_bytes(parts)``: the characters that it has a byte of."""
    characters = _character_of_each_byte(b"".join(parts))
    spans, start = [], 0
    for part in parts:
        end = start + len(part)
        if part:
            spans.append((characters[start], characters[end - 1] + 1))
        else:
            position = characters[start - 1] + 1 if start else 0
            spans.append((position, position))
        start = end
    return spans


def _character_of_each_byte(data: bytes) -> list[int]:
    """The index of the character that each byte belongs to."""
    characters: list[int] = []
    character = start = 0
    while start < len(data):
        length = _length(data[start : start + 4])
        characters += [character] * length
        character += 1
        start += length
    return characters


def _length(data: bytes) -> int:
    """The number of bytes of the first character, or of the first run that decodes as one U+FFFD."""
    lead = data[0]
    if lead < 0x80:
        return 1
    expected = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    try:
        data[:expected].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end
    return expected
