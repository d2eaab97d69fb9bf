"""Limits on the arrays that are read: how large they may be, checked before memory is allocated for them.

A file that somebody else made may claim any size: a PNG of a few hundred bytes can declare 10⁹ pixels, a member of an
archive can expand a thousandfold. Every reader compares the declared size with these limits before it decodes, and
reads no more bytes than were declared.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import DataError
from weft.packed import MAX_SIDE


@dataclass(frozen=True)
class ArrayLimits:
    """The largest array of a corpus; a larger one is a `DataError`."""

    pixels: int = 1 << 26
    """Height × width of a picture; a page scanned at 600 dpi has 35 million."""
    frames: int = 1 << 18
    """Frames of a sequence: 44 minutes of sound."""
    features: int = 1 << 14
    """Values of a frame."""
    bytes: int = 1 << 28
    """Bytes of a file, or of a member of an archive when it is decompressed."""

    def check_pixels(self, name: str, width: int, height: int) -> None:
        if width < 1 or height < 1:
            raise DataError(f"{name}: a picture of {width:,} × {height:,} pixels; expected at least 1 × 1")
        if width * height > self.pixels:
            raise DataError(
                f"{name}: a picture of {width:,} × {height:,} pixels, more than the limit of {self.pixels:,}; scale it "
                "down, or raise the limit"
            )
        if max(width, height) > MAX_SIDE:
            raise DataError(f"{name}: a picture of {width:,} × {height:,} pixels; a side has at most {MAX_SIDE:,}")

    def check_frames(self, name: str, frames: int, features: int) -> None:
        if frames > (most := min(self.frames, MAX_SIDE)):
            raise DataError(f"{name}: {frames:,} frames, more than the limit of {most:,}; cut it into parts")
        if features > self.features:
            raise DataError(f"{name}: {features:,} features a frame, more than the limit of {self.features:,}")

    def check_bytes(self, name: str, count: int) -> None:
        if count > self.bytes:
            raise DataError(f"{name}: {count:,} bytes, more than the limit of {self.bytes:,}")


DEFAULT_LIMITS = ArrayLimits()
