import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.arrays.pictures import read_picture
from weft.data.arrays.png import data_address, png_bytes
from weft.errors import DataError


@given(st.integers(1, 17), st.integers(1, 13), st.sampled_from([None, 1, 3]), st.integers(0, 99))
def test_pictures_are_read_back(height, width, channels, seed):
    shape = (height, width) if channels is None else (height, width, channels)
    picture = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    assert np.array_equal(read_picture(png_bytes(picture), "a.png"), picture.reshape(height, width, channels or 1))


def test_alpha():
    """Transparent pixels are laid on white paper by the reader."""
    picture = np.zeros((2, 3, 4), np.uint8)
    picture[0, 1] = (200, 100, 50, 255)
    read = read_picture(png_bytes(picture), "a.png")
    assert read[0, 1].tolist() == [200, 100, 50] and (read[1] == 255).all()
    assert read_picture(png_bytes(picture[:, :, 2:]), "a.png")[0, :, 0].tolist() == [255, 50, 255]


def test_a_part_of_a_picture():
    picture = np.arange(120, dtype=np.uint8).reshape(10, 12)[::2, 1::3]
    assert np.array_equal(read_picture(png_bytes(picture), "a.png")[:, :, 0], picture)


def test_addresses():
    address = data_address(np.full((1, 1), 7, np.uint8))
    assert address.startswith("data:image/png;base64,")
    assert read_picture(base64.b64decode(address.partition(",")[2]), "a.png").tolist() == [[[7]]]


@pytest.mark.parametrize(
    ("picture", "given"),
    [
        (np.zeros((2, 2)), "a picture of float64, 2 × 2"),
        (np.zeros((0, 2), np.uint8), "a picture of uint8, 0 × 2"),
        (np.zeros((2, 2, 5), np.uint8), "a picture of uint8, 2 × 2 × 5"),
        (np.uint8(1), "a picture of uint8, no axes"),
    ],
)
def test_other_arrays_are_refused(picture, given):
    expected = "; expected uint8, height × width × 1 to 4 channels"
    with pytest.raises(DataError) as caught:
        png_bytes(np.asarray(picture))
    assert str(caught.value) == given + expected
