import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from weft.errors import DataError
from weft.pictures.pixels import MAX_TINT, TINT, as_rgb, fit, frames_picture, half_blocks, resized, shades, tinted

RANDOM = np.random.default_rng(3)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 20), st.integers(1, 20))
def test_fit_keeps_proportions(height, width, most_high, most_wide):
    small = fit(np.full((height, width), 9, np.uint8), most_high, most_wide)
    assert small.shape[0] <= max(most_high, 1) and small.shape[1] <= max(most_wide, 1)
    assert (small == 9).all()
    if height <= most_high and width <= most_wide:
        assert small.shape == (height, width)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 15), st.integers(1, 15))
def test_a_new_pixel_is_the_mean_of_those_it_covers(height, width, new_height, new_width):
    picture = RANDOM.integers(0, 256, (height, width), np.uint8)
    repeated = picture.repeat(new_height, 0).repeat(new_width, 1).astype(float)
    expected = repeated.reshape(new_height, height, new_width, width).mean((1, 3))
    assert np.abs(resized(picture, new_height, new_width) - expected).max() <= 0.5 + 1e-9


def test_tints():
    picture = RANDOM.integers(0, 256, (5, 7), np.uint8)
    shares_HW = RANDOM.random((5, 7))
    colored = tinted(picture, shares_HW)
    for row in range(5):
        for column in range(7):
            for channel in range(3):
                value = int(picture[row, column])
                expected = value + MAX_TINT * shares_HW[row, column] * (TINT[channel] - value)
                assert abs(colored[row, column, channel] - expected) <= 0.5 + 1e-9
    assert np.array_equal(tinted(picture, np.zeros((5, 7))), as_rgb(picture))


def test_frames():
    frames = np.array([[0.0, 1.0, 2.0], [4.0, 3.0, np.nan]], np.float32)
    assert frames_picture(frames).tolist() == [[128, 255], [191, 64], [255, 0]]
    assert (frames_picture(np.ones((3, 2))) == 255).all()


def test_half_blocks_show_two_rows_in_a_line():
    picture = np.array([[0, 50], [100, 150], [200, 250]], np.uint8)
    lines = half_blocks(picture)
    assert [line.plain for line in lines] == ["▀▀", "▀▀"]
    console = Console(color_system="truecolor", force_terminal=True, width=10, _environ={})
    with console.capture() as capture:
        console.print(lines[0])
    assert "38;2;0;0;0;48;2;100;100;100m▀" in capture.get()


@pytest.mark.parametrize("inverted", [False, True])
def test_shades_show_ink(inverted):
    picture = np.full((6, 7), 255, np.uint8)
    picture[2:4, 3] = 0
    picture = 255 - picture if inverted else picture
    assert [line.plain for line in shades(picture)] == ["       ", "   █   ", "       "]
    assert [line.plain for line in shades(picture, ascii_only=True)][1] == "   #   "
    assert [line.plain for line in shades(np.full((1, 3), 7, np.uint8))] == ["   "]


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros((2, 3, 4), np.uint8), np.zeros((0, 3), np.uint8)])
def test_other_arrays_are_refused(array):
    with pytest.raises(
        DataError, match=r"^a picture of \w+, [\d ×]+; expected uint8, height × width × 1 or 3 channels$"
    ):
        as_rgb(array)
