import struct
import sys
import tracemalloc
import warnings
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from oracles import scaling
from weft.data.arrays import pictures
from weft.data.arrays.limits import ArrayLimits
from weft.data.arrays.pictures import format_of, read_picture, scaled_width, with_channels, with_height
from weft.errors import DataError

GRAY = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7) * 7
COLOR = np.stack([GRAY, 255 - GRAY, GRAY // 2], axis=2)


def encoded(image, picture_format, **options) -> bytes:
    file = BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, picture_format, **options)
    return file.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims a size, with hardly any pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("picture_format", ["PNG", "TIFF", "PPM", "WEBP"])
@pytest.mark.parametrize("pixels", [GRAY, COLOR], ids=["gray", "color"])
def test_lossless_formats(picture_format, pixels):
    options = {"lossless": True} if picture_format == "WEBP" else {}
    picture = read_picture(encoded(pixels, picture_format, **options), "a")
    assert picture.dtype == np.uint8
    if picture_format == "WEBP":  # has no gray
        assert np.array_equal(picture, pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, 2))
    else:
        assert np.array_equal(picture, pixels if pixels.ndim == 3 else pixels[:, :, None])


def test_jpeg():
    picture = read_picture(encoded(np.full((16, 24), 90, np.uint8), "JPEG"), "a.jpg")
    assert picture.shape == (16, 24, 1)
    assert np.abs(picture.astype(int) - 90).max() < 5


def test_sixteen_bits_become_eight():
    values = np.array([[0, 255, 256, 65535]], np.uint16)
    assert read_picture(encoded(values, "PNG"), "a")[:, :, 0].tolist() == [[0, 0, 1, 255]]
    assert read_picture(encoded(values, "TIFF"), "a")[:, :, 0].tolist() == [[0, 0, 1, 255]]
    pgm = b"P5 4 1 65535\n" + values.astype(">u2").tobytes()
    assert read_picture(pgm, "a")[:, :, 0].tolist() == [[0, 0, 1, 255]]


def test_black_and_white():
    assert read_picture(encoded(GRAY > 100, "PNG"), "a")[:, :, 0].tolist() == (255 * (GRAY > 100)).tolist()


def test_palettes_become_colors():
    image = Image.fromarray(np.array([[0, 1, 1]], np.uint8), "P")
    image.putpalette([10, 20, 30, 200, 100, 50])
    assert read_picture(encoded(image, "PNG"), "a").tolist() == [[[10, 20, 30], [200, 100, 50], [200, 100, 50]]]
    transparent = read_picture(encoded(image, "PNG", transparency=0), "a")
    assert transparent.tolist() == [[[255, 255, 255], [200, 100, 50], [200, 100, 50]]]


def test_transparent_pixels_are_laid_on_white():
    rgba = np.array([[[0, 0, 0, 0], [0, 0, 0, 255], [0, 0, 0, 51]]], np.uint8)
    assert read_picture(encoded(rgba, "PNG"), "a")[0, :, 0].tolist() == [255, 0, 204]
    gray = read_picture(encoded(Image.fromarray(rgba[:, :, 2:]), "PNG"), "a")
    assert gray.tolist() == [[[255], [0], [204]]]


def test_cmyk():
    picture = read_picture(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "TIFF"), "a")
    assert picture[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_upright(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = {  # what the camera stores of GRAY, by the meaning of the tag
        1: GRAY,
        2: GRAY[:, ::-1],
        3: GRAY[::-1, ::-1],
        4: GRAY[::-1],
        5: GRAY.T,
        6: np.rot90(GRAY),
        7: GRAY[::-1, ::-1].T,
        8: np.rot90(GRAY, -1),
    }[orientation]
    picture = read_picture(encoded(np.ascontiguousarray(turned), "PNG", exif=exif), "a")
    assert np.array_equal(picture[:, :, 0], GRAY)


def test_damaged_exif_data_does_not_matter():
    data = encoded(GRAY, "PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + bytes(9))
    assert np.array_equal(read_picture(data, "a")[:, :, 0], GRAY)


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1)])
def test_extreme_shapes(size):
    assert read_picture(encoded(np.zeros(size, np.uint8), "PNG"), "a").shape == (*size, 1)


class TestHostileFiles:
    @pytest.mark.parametrize("size", [(31_623, 31_623), (10**9, 1), (1, 2**31 - 1)])
    def test_claimed_sizes_are_refused_before_decoding(self, size):
        with pytest.raises(DataError, match=r"^a\.png: a picture of .* pixels, more than the limit of 67,108,864"):
            read_picture(png_of_size(*size), "a.png")

    def test_claimed_sizes_of_other_formats(self):
        webp = encoded(COLOR, "WEBP", lossless=True)
        bits = (16_382 | 16_382 << 14).to_bytes(4, "little")
        big = {
            "webp": webp[:21] + bits + webp[25:],
            "webp vp8x": b"RIFF\xff\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\xff\xff" * 2 + bytes(20),
            "webp vp8": b"RIFF\xff\0\0\0WEBPVP8 \x0a\0\0\0" + bytes(6) + b"\xff\x3f\xff\x3f" + bytes(20),
            "pgm": b"P5 100000 100000 255\n" + bytes(99),
            "jpeg": encoded(GRAY, "JPEG").replace(struct.pack(">HH", 5, 7), b"\xff\xff\xff\xff", 1),
        }
        for name, data in big.items():
            with pytest.raises(DataError, match="more than the limit"):
                read_picture(data, name)

    def test_the_limit_alone_decides(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns from 89 million pixels on
            with pytest.raises(DataError, match="damaged PNG"):
                read_picture(png_of_size(10_000, 10_000), "a.png", ArrayLimits(pixels=10**8))

    @pytest.mark.parametrize("picture_format", ["PNG", "WEBP", "TIFF"])
    def test_several_pictures(self, picture_format):
        others = [Image.fromarray(255 - COLOR)] * 3
        data = encoded(COLOR, picture_format, save_all=True, append_images=others)
        with pytest.raises(DataError, match=r"^a: a \w+ file with several pictures or pages; save each in a file$"):
            read_picture(data, "a")

    def test_files_of_other_kinds(self):
        gif = encoded(GRAY, "GIF", save_all=True, append_images=[Image.fromarray(255 - GRAY)])
        for data, kind in [
            (gif, "a GIF file"),
            (b"", "an empty file"),
            (b"%PDF-1.7", "a PDF file"),
            (b"<svg xmlns", "an SVG file"),
            (encoded(GRAY, "BMP"), "a BMP file"),
            (b"\0\0\0\x1cftypavif", "an AVIF or HEIC file"),
            (b"hello", "not a picture"),
            (b"P5", "not a picture"),
        ]:
            with pytest.raises(DataError, match=f"^a: {kind}; expected PNG, JPEG, WebP, TIFF or PGM$"):
                read_picture(data, "a")

    @pytest.mark.parametrize("picture_format", ["PNG", "JPEG", "WEBP", "TIFF", "PPM"])
    def test_truncated_files(self, picture_format):
        noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
        data = encoded(noise, picture_format)
        for end in (9, 29, len(data) // 2, len(data) - 400):
            with pytest.raises(DataError, match=r"^a: (a damaged \w+ file|not a picture)"):
                read_picture(data[:end] if end > 12 else data[:end] + bytes(1), "a")

    def test_floating_point_pixels(self):
        with pytest.raises(DataError, match=r"^a: pixels are floating-point numbers; save 8 or 16 bits"):
            read_picture(encoded(GRAY.astype(np.float32), "TIFF"), "a")
        with pytest.raises(DataError, match=r"^a: pixels of 32 bits"):
            read_picture(encoded(GRAY.astype(np.int32) * 1000_000, "TIFF"), "a")

    @given(st.sampled_from(["PNG", "JPEG", "WEBP", "TIFF", "PPM"]), st.data())
    def test_any_damage_gives_a_picture_or_one_line(self, picture_format, draw):
        data = bytearray(encoded(COLOR, picture_format))
        for _ in range(draw.draw(st.integers(1, 4))):
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        try:
            picture = read_picture(bytes(data), "a", ArrayLimits(pixels=10_000))
        except DataError as error:
            assert "\n" not in str(error)
        else:
            assert picture.dtype == np.uint8 and picture.shape[2] in (1, 3)


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    pictures._decoders.cache_clear()
    with pytest.raises(DataError, match=r"pip install 'weft-seq2seq\[images\]'"):
        read_picture(png_of_size(1, 1), "a")


def test_formats_are_recognized_by_content():
    assert format_of(encoded(GRAY, "PNG")) == "PNG"
    assert format_of(b"P5\n1 1\n255\n\0") == "PGM"
    assert format_of(b"P7\n") is None


def test_channels():
    gray = with_channels(np.array([[[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8), 1)
    assert gray.tolist() == [[[255], [76], [150], [29]]]
    assert with_channels(gray, 3).tolist() == [[[255] * 3, [76] * 3, [150] * 3, [29] * 3]]
    assert with_channels(gray, 1) is gray


@pytest.mark.parametrize(
    ("height", "width", "channels", "new"),
    [(30, 19, 1, 24), (7, 11, 3, 23), (101, 5, 3, 3), (3, 2, 1, 1), (1, 5, 1, 4)],
)
def test_scaling(height: int, width: int, channels: int, new: int) -> None:
    """Loops over weights and over rows, smaller and larger, against pixel by pixel; halves round either way."""
    picture = np.random.default_rng(1).integers(0, 256, (height, width, channels)).astype(np.uint8)
    scaled = with_height(picture, new)
    assert scaled.shape == (new, scaled_width(picture, new), channels) and scaled.dtype == np.uint8
    for channel in range(channels):
        expected = scaling.with_height(picture[:, :, channel].tolist(), *scaled.shape[:2])
        assert np.abs(scaled[:, :, channel] - np.array(expected)).max() < 0.501


@pytest.mark.parametrize(("height", "width"), [(25, 150_000), (1_000_000, 1)])
def test_scaling_takes_memory_by_the_size_of_the_picture(height: int, width: int) -> None:
    """With a matrix of the weights of all pairs of columns, 160 GB."""
    picture = np.full((height, width, 1), 200, np.uint8)
    tracemalloc.start()
    try:
        assert (with_height(picture, 24) == 200).all()
        assert tracemalloc.get_traced_memory()[1] < 30 * picture.size + (8 << 20)
    finally:
        tracemalloc.stop()
