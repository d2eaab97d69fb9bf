"""Drawn digits: the same pixels on every machine, legible, and as different as hands are."""

from hashlib import blake2b
from random import Random

import numpy as np
import pytest

from weft.errors import DataError
from weft.tasks.drawn_digits import HEIGHT, STROKES, SYMBOLS, VARIANTS, draw, sample, write

RECORDED = ([(24, 35), (24, 67), (24, 60)], "6fd67b75db94b8ba")


def test_a_name_stands_for_the_same_pixels_everywhere():
    """Recorded once: all arithmetic is on integers."""
    names = [f"pictures/{symbols}-6-{number:012x}.png" for symbols, number in ((12, 0), (12, 1), (10, 2**48 - 1))]
    digest = blake2b(b"".join(draw(name).tobytes() for name in names), digest_size=8).hexdigest()
    assert ([draw(name).shape for name in names], digest) == RECORDED


def test_samples():
    random = Random(1)
    pairs = [sample(random) for _ in range(500)]
    assert len({pair.source for pair in pairs}) == 500
    assert {len(pair.target) for pair in pairs} == set(range(1, 7))
    assert {symbol for pair in pairs for symbol in pair.target} == set(SYMBOLS)
    pairs = [sample(random, length=2, symbols=3) for _ in range(100)]
    assert {symbol for pair in pairs for symbol in pair.target} == set("012")
    assert max(len(pair.target) for pair in pairs) == 2


def test_pictures():
    random = Random(2)
    for _ in range(50):
        pair = sample(random, length=12)
        picture = draw(pair.source)
        assert picture.dtype == np.uint8 and picture.shape[0] == HEIGHT
        assert 5 * len(pair.target) < picture.shape[1] < 24 * len(pair.target) + 24
        paper, ink = np.median(picture), np.percentile(picture, 1)
        assert paper > ink + 60, "ink is darker than paper"
        assert abs(np.median(picture[:, :2]) - paper) < 40, "the text touches no side"


def test_texts_are_drawn_in_reading_order():
    """Ink of a minus is in its own part of the line, whatever the hand."""
    for seed in range(20):
        picture = write("8-8", Random(seed)).astype(int)
        ink = picture < (np.median(picture) + picture.min()) // 2
        columns = ink.sum(0)
        middle = slice(len(columns) * 9 // 20, len(columns) * 11 // 20)
        assert columns[middle].max() < columns[: middle.start].max()
        assert columns[middle].max() < columns[middle.stop :].max()


def test_symbols_can_be_told_apart():
    """The nearest mean picture of a symbol is its own, for most hands: they are read without learning."""

    def normalized(symbol, seed):
        picture = write(symbol, Random(seed)).astype(float)
        ink = np.median(picture) - picture
        columns = np.flatnonzero((ink > ink.max() / 2).any(0))
        cut = ink[:, columns[0] : columns[-1] + 1]
        across = np.linspace(0, cut.shape[1] - 1, 12).round().astype(int)
        return (cut[:, across] / np.linalg.norm(cut[:, across])).ravel()

    means = {symbol: np.mean([normalized(symbol, seed) for seed in range(30)], 0) for symbol in SYMBOLS}
    read = [
        max(means, key=lambda other: means[other] @ normalized(symbol, seed))
        for symbol in SYMBOLS
        for seed in range(100, 110)
    ]
    right = sum(symbol == SYMBOLS[index // 10] for index, symbol in enumerate(read))
    assert right > 0.7 * len(read)


def test_strokes_are_in_their_box():
    assert STROKES.keys() == set(SYMBOLS) and VARIANTS.keys() <= STROKES.keys()
    for strokes in (*STROKES.values(), *VARIANTS.values()):
        for stroke in strokes:
            assert len(stroke) > 1 and all(0 <= x <= 60 and 0 <= y <= 100 for x, y in stroke)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a.png", "../pictures/12-6-0a1b2c3d4e5f.png", f"pictures/{'9' * 5000}-6-0a1b2c3d4e5f.png"),
        *(f"pictures/{name}.png" for name in ("13-6-0a1b2c3d4e5f", "12-0-0a1b2c3d4e5f", "12-101-0a1b2c3d4e5f")),
        "pictures/12-6-0A1b2c3d4e5f.png",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(DataError, match=r"^.{0,100}: no drawing; expected a name such as pictures/12-6-\w{12}\.png$"):
        draw(name)
