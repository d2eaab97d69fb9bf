"""Pictures of digits, drawn from strokes → the digits: a line of handwriting to read, without a font or a download.

A source is the name of a picture, ``pictures/12-6-0a1b2c3d4e5f.png``: the number of symbols to choose from, the longest
text, and a number that seeds the text and how it is written. `draw` gives the picture of a name: ink on lighter paper,
uint8, `HEIGHT` pixels high and as wide as its text. Hands differ in slant, size and the width of the pen; symbols in
position, height and corners; paper and ink in brightness and grain.

All arithmetic is on integers, so a name stands for the same pixels on every machine. The strokes of a symbol are lines
between points, whose corners are cut (Chaikin 1974). A pixel has `SAMPLES`² samples; those within half the width of the
pen of a sample on a line are ink, and the share of its samples that are ink is how dark a pixel is.
"""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

import numpy as np

from weft.data.pairs import Pair
from weft.errors import DataError, quote
from weft.tasks.options import check_integer

SYMBOLS = "0123456789+-"
HEIGHT = 24
UNIT = 16
"""Steps of a coordinate per pixel."""
SAMPLES = 4
"""Samples of a pixel in each direction."""
STEPS = 64
"""Points between the ends of a line, which are at most as far apart as samples."""
BOX = 100
"""Height of a symbol in the units of its strokes."""
MAX_LENGTH = 100
_NAME = re.compile(r"pictures/(\d+)-(\d+)-([0-9a-f]{12})\.png", re.ASCII)

Point = tuple[int, int]
Stroke = tuple[Point, ...]

# Strokes in a box of 60 × 100, y downward. A point that stands twice is a sharp corner.
STROKES: dict[str, tuple[Stroke, ...]] = {
    "0": (((30, 0), (8, 12), (0, 50), (8, 88), (30, 100), (52, 88), (60, 50), (52, 12), (30, 0)),),
    "1": (((10, 24), (34, 0), (34, 0), (34, 100)),),
    "2": (((4, 26), (10, 6), (30, 0), (52, 8), (54, 32), (38, 58), (2, 100), (2, 100), (58, 98)),),
    "3": (((4, 10), (28, 0), (54, 10), (52, 38), (22, 48), (22, 48), (56, 58), (58, 86), (30, 100), (2, 90)),),
    "4": (((40, 0), (0, 68), (0, 68), (60, 68)), ((42, 38), (42, 100))),
    "5": (((54, 0), (12, 0), (12, 0), (6, 46), (6, 46), (32, 36), (58, 52), (56, 86), (30, 100), (2, 92)),),
    "6": (((46, 0), (20, 16), (4, 50), (4, 84), (26, 100), (52, 94), (58, 68), (40, 50), (14, 56), (4, 76)),),
    "7": (((0, 2), (58, 0), (58, 0), (22, 100)),),
    "8": (
        (
            *((46, 8), (28, 0), (8, 8), (8, 36), (30, 48), (54, 62), (54, 92), (30, 100)),
            *((6, 92), (4, 62), (30, 48), (50, 36), (50, 14), (40, 4)),
        ),
    ),
    "9": (((52, 12), (32, 0), (8, 8), (4, 34), (18, 50), (42, 46), (54, 26), (54, 14), (54, 14), (50, 100)),),
    "+": (((30, 28), (30, 80)), ((4, 54), (56, 54))),
    "-": (((6, 54), (54, 54)),),
}
VARIANTS: dict[str, tuple[Stroke, ...]] = {
    "1": (((30, 0), (30, 100)),),
    "4": (((10, 0), (4, 56), (4, 56), (58, 56)), ((46, 4), (42, 100))),
    "7": (((0, 2), (58, 0), (58, 0), (24, 100)), ((16, 52), (52, 50))),
    "9": (((52, 12), (32, 0), (8, 8), (4, 34), (18, 50), (42, 46), (54, 26), (56, 14), (50, 74), (34, 96), (10, 98)),),
}
"""Other ways to write a symbol, as likely as the first."""


def sample(random: Random, *, length: int = 6, symbols: int = 12) -> Pair:
    """1 to `length` of the first `symbols` of 0123456789+-, each length and each symbol equally likely."""
    check_integer("length", length, minimum=1, maximum=MAX_LENGTH)
    check_integer("symbols", symbols, minimum=1, maximum=len(SYMBOLS))
    name = f"pictures/{symbols}-{length}-{random.getrandbits(48):012x}.png"
    return Pair(name, _text(*_parts(name)))


def draw(name: str) -> np.ndarray:
    """The picture of a name: uint8, (`HEIGHT`, width)."""
    random, length, symbols = _parts(name)
    return write(_text(random, length, symbols), random)


def write(text: str, random: Random) -> np.ndarray:
    """The picture of a text of `SYMBOLS` in a random hand: uint8, (`HEIGHT`, width)."""
    size = random.randint(14, 18) * UNIT
    slant, width, pen = random.randint(-25, 35), random.randint(75, 110), random.randint(18, 40)
    gap, left = random.randint(2 * UNIT, 6 * UNIT), random.randint(3, 8) * UNIT
    segments: list[list[int]] = []
    for symbol in text:
        height = size * random.randint(92, 108) // 100
        base = (HEIGHT * UNIT + size) // 2 + random.randint(-UNIT, UNIT)
        strokes = VARIANTS[symbol] if symbol in VARIANTS and random.getrandbits(1) else STROKES[symbol]
        lines = [_curve(_jittered(stroke, random)) for stroke in strokes]
        points_xy = np.array([point for line in lines for point in line])
        points_xy[:, 0] = height * (points_xy[:, 0] * width + (BOX - points_xy[:, 1]) * slant) // BOX**2
        points_xy[:, 1] = base - height * (BOX - points_xy[:, 1]) // BOX
        points_xy[:, 0] += left - points_xy[:, 0].min()
        ends = np.cumsum([len(line) for line in lines])[:-1] - 1  # of lines from a stroke to the next
        segments += np.delete(np.concatenate([points_xy[:-1], points_xy[1:]], axis=1), ends, axis=0).tolist()
        left = int(points_xy[:, 0].max()) + pen // 2 + gap + random.randint(-UNIT, UNIT)
    columns = (left + random.randint(2, 8) * UNIT) // UNIT
    return _on_paper(_coverage(np.array(segments), pen, columns), random)


def _parts(name: str) -> tuple[Random, int, int]:
    """The random numbers, the longest text and the number of symbols that a name stands for."""
    match = _NAME.fullmatch(name)
    symbols, length = (int(match[1][:4]), int(match[2][:4])) if match else (0, 0)
    if match is None or not (1 <= symbols <= len(SYMBOLS) and 1 <= length <= MAX_LENGTH):
        raise DataError(f"{quote(name)}: no drawing; expected a name such as pictures/12-6-0a1b2c3d4e5f.png")
    return Random(f"drawn-digits {match[3]}"), length, symbols


def _text(random: Random, length: int, symbols: int) -> str:
    return "".join(random.choices(SYMBOLS[:symbols], k=random.randint(1, length)))


def _jittered(stroke: Stroke, random: Random) -> list[Point]:
    """The points of a stroke, each moved a little; equal points stay equal."""
    moved = {point: (point[0] + random.randint(-5, 5), point[1] + random.randint(-4, 4)) for point in stroke}
    return [moved[point] for point in stroke]


def _curve(points: list[Point]) -> list[Point]:
    """The line with each corner cut at a quarter of its two sides."""
    if len(points) < 3:
        return points
    cut = [points[0]]
    for (x, y), (next_x, next_y) in pairwise(points):
        cut += [((3 * x + next_x) // 4, (3 * y + next_y) // 4), ((x + 3 * next_x) // 4, (y + 3 * next_y) // 4)]
    return [*cut, points[-1]]


def _coverage(segments: np.ndarray, pen: int, columns: int) -> np.ndarray:
    """The samples of each pixel that are ink, 0 to `SAMPLES`²: (`HEIGHT`, columns); segments: x, y, x, y."""
    steps = np.arange(STEPS + 1)[:, None, None]
    points_xy = (segments[:, :2] * (STEPS - steps) + segments[:, 2:] * steps) // STEPS
    height, width = HEIGHT * SAMPLES, columns * SAMPLES
    radius = pen * SAMPLES // (2 * UNIT)
    lines = np.zeros((height + 2 * radius, width + 2 * radius), bool)
    x, y = np.moveaxis(points_xy * SAMPLES // UNIT + radius, -1, 0)
    lines[np.clip(y, 0, lines.shape[0] - 1), np.clip(x, 0, lines.shape[1] - 1)] = True
    inked = np.zeros((height, width), bool)
    for down in range(2 * radius + 1):
        for right in range(2 * radius + 1):
            if 4 * UNIT**2 * ((down - radius) ** 2 + (right - radius) ** 2) <= (pen * SAMPLES) ** 2:
                inked |= lines[down : down + height, right : right + width]
    return inked.reshape(HEIGHT, SAMPLES, columns, SAMPLES).sum((1, 3))


def _on_paper(coverage: np.ndarray, random: Random) -> np.ndarray:
    """Ink on paper: brightness between that of both by the coverage, with a grain, and a few specks."""
    paper, ink, grain = random.randint(190, 255), random.randint(0, 90), random.randint(0, 40)
    brightness = paper - (paper - ink) * coverage // SAMPLES**2
    height, width = coverage.shape
    for _ in range(random.randint(0, 1 + width // 16)):
        row, column = random.randrange(height), random.randrange(width)
        brightness[row : row + 2, column : column + 1] = random.randint(ink, paper)
    noise = np.frombuffer(random.randbytes(coverage.size), np.uint8).reshape(coverage.shape)
    brightness += noise * np.int64(2 * grain + 1) // 256 - grain
    return np.clip(brightness, 0, 255).astype(np.uint8)
