"""Pictures: PNG, JPEG, WebP, TIFF and PGM files become arrays of bytes, height × width × channels.

A picture has one channel (gray) or three (red, green, blue). Transparent pixels are laid on white paper, palettes and
CMYK become red, green and blue, 16 bits become 8, and a picture that a camera has marked as rotated is turned upright.

The format is recognized by its first bytes, never by the name, and only the decoder of that format is opened. The size
in the header is compared with the limits before a pixel is decoded. Files with several pictures (animations, pages of a
TIFF) are refused: which one is meant is not known. Decoding needs Pillow, the extra ``images``.
"""

from __future__ import annotations

import warnings
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".pgm", ".ppm", ".pbm")
"""Endings of names of pictures."""
EXPECTED = "expected PNG, JPEG, WebP, TIFF or PGM"
MAX_16_BITS = 65_535
HEADER_BYTES = 30
"""Bytes of a WebP file up to its size, in each of its three variants."""


def read_picture(data: bytes, name: str, limits: ArrayLimits = DEFAULT_LIMITS) -> np.ndarray:
    """The picture in the bytes of a file: uint8, (height, width, 1 or 3); ``name`` is for messages."""
    picture_format = format_of(data)
    if picture_format is None:
        raise DataError(f"{name}: {_description(data)}; {EXPECTED}")
    if picture_format == "WebP":
        limits.check_pixels(name, *_webp_size(data, name))  # its decoder allocates memory when it is opened
    try:
        with _decoders()[picture_format](BytesIO(data)) as image:
            limits.check_pixels(name, *image.size)
            if _has_more_pictures(image):
                raise DataError(f"{name}: a {picture_format} file with several pictures or pages; save each in a file")
            image.load()
            return _array(_upright(image), name)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # decoders raise errors of many classes
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{name}: a damaged {picture_format} file ({reason[:120]}); restore it from a copy") from None


def format_of(data: bytes) -> str | None:
    """The format of a picture that is read, by its first bytes; None: not a picture, or of another format."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WebP"
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "TIFF"
    if len(data) > 2 and data[:2] in (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6") and data[2:3].isspace():
        return "PGM"
    return None


def with_channels(picture: np.ndarray, channels: int) -> np.ndarray:
    """The picture with one channel (ITU-R 601 luma: 0.299 R + 0.587 G + 0.114 B) or with three."""
    if picture.shape[2] == channels:
        return picture
    if channels == 3:
        return np.repeat(picture, 3, axis=2)
    red, green, blue = (picture[:, :, channel].astype(np.uint32) for channel in range(3))
    luma = (299 * red + 587 * green + 114 * blue + 500) // 1000
    return luma.astype(np.uint8)[:, :, None]


def scaled_width(picture: np.ndarray, height: int) -> int:
    """The width of a picture when it is scaled to this height."""
    return max(round(picture.shape[1] * height / picture.shape[0]), 1)


def with_height(picture: np.ndarray, height: int) -> np.ndarray:
    """The picture scaled to this height, and in proportion to a width: what becomes one pixel is averaged."""
    if picture.shape[0] == height:
        return picture
    scaled = _resized(picture, height)
    scaled = _resized(scaled.swapaxes(0, 1), scaled_width(picture, height)).swapaxes(0, 1)
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def _resized(values: np.ndarray, new_size: int) -> np.ndarray:
    """The values with another size of the first axis: new row i is the mean of the old rows near c_i.

        y_i = Σ_j w_ij x_j / Σ_j w_ij      w_ij = max(0, 1 − |j − c_i| / r)      c_i = (i + ½) s − ½      r = max(s, 1)

    s is the old size by the new one. At most 2 r weights of a row are not 0. Loops run over these or over the new
    rows, whichever are fewer: with a matrix of all weights, a picture of 25 × 167,000 pixels would take 200 GB.
    """
    size = len(values)
    scale = size / new_size
    reach = max(scale, 1.0)
    centers = (np.arange(new_size) + 0.5) * scale - 0.5
    first = np.floor(centers - reach).astype(np.int64) + 1
    count = int(2 * reach) + 1
    means = np.zeros((new_size, *values.shape[1:]), np.float32)
    if new_size <= count:
        for row, center in enumerate(centers.tolist()):
            begin, end = max(int(first[row]), 0), min(int(first[row]) + count, size)
            weights = np.maximum(0, 1 - np.abs(np.arange(begin, end) - center) / reach)
            means[row] = np.tensordot((weights / weights.sum()).astype(np.float32), values[begin:end], 1)
        return means
    total = np.zeros(new_size)
    for offset in range(count):
        old = first + offset
        weights = np.maximum(0, 1 - np.abs(old - centers) / reach) * ((old >= 0) & (old < size))
        total += weights
        means += weights.astype(np.float32)[:, None, None] * values[np.clip(old, 0, size - 1)]
    return means / total.astype(np.float32)[:, None, None]


@cache
def _decoders() -> dict[str, Any]:
    """The decoder of each format. Unlike `PIL.Image.open` it tries no other and warns of no size: the limits decide."""
    try:
        from PIL import JpegImagePlugin, PngImagePlugin, PpmImagePlugin, TiffImagePlugin, WebPImagePlugin
    except ImportError:
        raise DataError("pictures need Pillow, which is not installed; pip install 'weft-seq2seq[images]'") from None
    warnings.filterwarnings("ignore", module=r"PIL\.")  # about damage that is an error, or does not matter
    return {
        "PNG": PngImagePlugin.PngImageFile,
        "JPEG": JpegImagePlugin.JpegImageFile,
        "WebP": WebPImagePlugin.WebPImageFile,
        "TIFF": TiffImagePlugin.TiffImageFile,
        "PGM": PpmImagePlugin.PpmImageFile,
    }


def _has_more_pictures(image: Any) -> bool:
    """Whether a file contains a second picture; further ones are not counted."""
    if image.format == "TIFF":
        try:
            image.seek(1)
        except EOFError:
            return False
        return True
    return getattr(image, "n_frames", 1) > 1


def _upright(image: Image) -> Image:
    """The picture as its camera was held; one whose EXIF data is damaged stays as it is."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _array(image: Image, name: str) -> np.ndarray:
    """Pixels of any mode of Pillow as gray or red, green and blue."""
    if image.mode == "F":
        raise DataError(f"{name}: pixels are floating-point numbers; save 8 or 16 bits, or frames in a .npy file")
    if image.mode.startswith("I"):  # 16 bits, which some decoders give as 32
        values = np.asarray(image)
        if values.min(initial=0) < 0 or values.max(initial=0) > MAX_16_BITS:
            raise DataError(f"{name}: pixels of 32 bits; save 8 or 16 bits")
        return (values.astype(np.uint32) >> 8).astype(np.uint8)[:, :, None]
    if image.mode in ("1", "L") and "transparency" not in image.info:
        return np.array(image.convert("L"))[:, :, None]
    is_gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        image = _on_white(image)
    return np.array(image.convert("L"))[:, :, None] if is_gray else np.array(image.convert("RGB"))


def _on_white(image: Image) -> Image:
    from PIL import Image as ImageModule

    opaque = image.convert("RGBA")
    paper = ImageModule.new("RGB", image.size, (255, 255, 255))
    paper.paste(opaque, mask=opaque.getchannel("A"))
    return paper


def _webp_size(data: bytes, name: str) -> tuple[int, int]:
    """Width and height in the header of a WebP file: extended, lossless or lossy."""
    header = data[:HEADER_BYTES]
    if len(header) < HEADER_BYTES:
        raise DataError(f"{name}: a damaged WebP file (it ends in its header); restore it from a copy")
    if header[12:16] == b"VP8X":
        return 1 + int.from_bytes(header[24:27], "little"), 1 + int.from_bytes(header[27:30], "little")
    if header[12:16] == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = (int.from_bytes(header[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return width, height


def _description(data: bytes) -> str:
    """The kind of a file that has none of the formats, for messages."""
    if not data:
        return "an empty file"
    known = {
        b"GIF8": "a GIF file",
        b"BM": "a BMP file",
        b"%PDF": "a PDF file",
        b"<svg": "an SVG file",
        b"<?xml": "an XML file",
        b"\0\0\0\x0cJXL ": "a JPEG XL file",
    }
    kind = next((text for start, text in known.items() if data.startswith(start)), None)
    if data[4:12] in (b"ftypavif", b"ftypheic", b"ftypheix", b"ftypmif1"):
        kind = "an AVIF or HEIC file"
    return kind or "not a picture"
