import pytest

from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.errors import DataError


def test_a_picture_up_to_the_limit_passes():
    ArrayLimits(pixels=12).check_pixels("a.png", 3, 4)
    with pytest.raises(DataError, match=r"^a.png: a picture of 13 × 1 pixels, more than the limit of 12; scale"):
        ArrayLimits(pixels=12).check_pixels("a.png", 13, 1)


@pytest.mark.parametrize("size", [(0, 3), (3, 0)])
def test_a_picture_without_pixels_is_refused(size):
    with pytest.raises(DataError, match="expected at least 1 × 1"):
        DEFAULT_LIMITS.check_pixels("a.png", *size)


def test_sides_that_do_not_fit_into_the_header_of_a_packed_array():
    limits = ArrayLimits(pixels=1 << 25, frames=1 << 25)
    with pytest.raises(DataError, match=r"^a.png: a picture of 1 × 16,777,216 pixels; a side has at most 16,777,215$"):
        limits.check_pixels("a.png", 1, 1 << 24)
    with pytest.raises(DataError, match=r"^a.npy: 16,777,216 frames, more than the limit of 16,777,215"):
        limits.check_frames("a.npy", 1 << 24, 1)


def test_frames_and_bytes():
    limits = ArrayLimits(frames=7, features=5, bytes=11)
    limits.check_frames("a.npy", 7, 5)
    limits.check_bytes("a.npy", 11)
    with pytest.raises(DataError, match=r"^a.npy: 8 frames, more than the limit of 7"):
        limits.check_frames("a.npy", 8, 5)
    with pytest.raises(DataError, match=r"^a.npy: 6 features a frame, more than the limit of 5"):
        limits.check_frames("a.npy", 7, 6)
    with pytest.raises(DataError, match=r"^a.npy: 12 bytes, more than the limit of 11"):
        limits.check_bytes("a.npy", 12)
