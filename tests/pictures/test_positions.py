from __future__ import annotations

import io
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from weft.errors import DataError
from weft.pictures import positions
from weft.pictures.positions import draw_positions, similarity, terminal_positions

LECTURE_PD = np.array(  # n = 5, d = 4, from the formula: sin p, cos p, sin(p/100), cos(p/100)
    [
        [0.0000, 1.0000, 0.0000, 1.0000],
        [0.8415, 0.5403, 0.0100, 1.0000],
        [0.9093, -0.4161, 0.0200, 0.9998],
        [0.1411, -0.9900, 0.0300, 0.9996],
        [-0.7568, -0.6536, 0.0400, 0.9992],
    ]
)


def sinusoids(count: int, width: int) -> np.ndarray:
    return np.array(
        [
            [(math.sin, math.cos)[i % 2](position / 10_000 ** ((i - i % 2) / width)) for i in range(width)]
            for position in range(count)
        ]
    )


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def printed(view: object, width: int = 80, **settings) -> str:
    out = io.StringIO()
    Console(file=out, width=width, _environ={}, **settings).print(view)
    return out.getvalue()


def test_similarity_is_the_cosine_of_every_pair() -> None:
    table_PD = np.random.default_rng(0).normal(size=(7, 5))
    cosines_PP = similarity(table_PD)
    for p in range(7):
        for q in range(7):
            dot = sum(table_PD[p, i] * table_PD[q, i] for i in range(5))
            lengths = math.hypot(*table_PD[p]) * math.hypot(*table_PD[q])
            assert cosines_PP[p, q] == pytest.approx(dot / lengths)


def test_similarity_of_sinusoids_depends_on_the_distance_only() -> None:
    cosines_PP = similarity(sinusoids(11, 6))
    for distance in range(11):
        stripe = np.diagonal(cosines_PP, distance)
        assert stripe == pytest.approx(np.full(len(stripe), stripe[0]))


def test_a_row_of_zeros_is_similar_to_none() -> None:
    assert similarity(np.array([[0.0, 0.0], [3.0, 0.0]])).tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_small_tables_show_their_numbers(tmp_path: Path) -> None:
    found = texts(draw_positions({"lecture": LECTURE_PD}, tmp_path / "table.svg", title="n = 5, d = 4"))
    assert {"lecture", "n = 5, d = 4", "positions: 5, dimensions: 4", "similarity (cosine) of positions"} <= set(found)
    for number in np.unique(LECTURE_PD):
        assert found.count(f"{number:.4f}") == np.count_nonzero(number == LECTURE_PD)
    assert found.count("0.77") == 8  # cosine of neighbors: (cos 1 + cos 0.01) / 2
    assert found.count("0.0100") == 1
    assert "0.0017" not in found


def test_large_tables_show_colors_only(tmp_path: Path) -> None:
    tables = {"sinusoidal": sinusoids(50, 16), "learned": np.random.default_rng(0).normal(0, 0.02, (40, 16))}
    found = texts(draw_positions(tables, tmp_path / "tables.svg"))
    assert {"sinusoidal", "learned", "positions: 50, dimensions: 16", "positions: 40, dimensions: 16"} <= set(found)
    assert found.count("dimension") == 2
    assert found.count("position") == 6  # twice down, once across
    assert not any(text.count(".") and len(text.partition(".")[2]) == 4 for text in found)


def test_tables_and_similarities_land_in_the_picture_zero_in_the_middle() -> None:
    learned_PD = np.random.default_rng(0).normal(0, 0.02, (7, 16)) + 0.01
    tables = {"sinusoidal": sinusoids(13, 16), "learned": learned_PD}
    figure = positions._figure(tables, "", ["DejaVu Sans"])
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 4
    expected = [array for table in tables.values() for array in (table, similarity(table))]
    for image, array in zip(images, expected, strict=True):
        assert np.array_equal(np.asarray(image.get_array()), array)
        low, high = image.get_clim()
        assert low == -high
    assert images[2].get_clim()[1] == np.abs(learned_PD).max()
    assert images[1].get_clim() == images[3].get_clim() == (-1.0, 1.0)
    table, below, beside = (image.axes.get_position() for image in images[:3])
    assert below.y1 < table.y0 and below.x0 == table.x0
    assert beside.x0 > table.x1 and beside.y1 == pytest.approx(table.y1)


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (300, 2), (5, 4)])
def test_nothing_leaves_the_picture(shape: tuple[int, int]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    tables = {"W" * 40: np.full(shape, -1234.5), "b": np.zeros(shape)}
    figure = positions._figure(tables, "title " * 30, ["DejaVu Sans"])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= 0 and box.y0 >= 0
    assert box.x1 <= width and box.y1 <= height


def test_odd_names(tmp_path: Path) -> None:
    tables = {"$x$ & <日本>": LECTURE_PD, "\x1b": LECTURE_PD, "": LECTURE_PD, "n" * 60: LECTURE_PD}
    found = texts(draw_positions(tables, tmp_path / "tables.svg"))
    assert {"$x$ & <日本>", "⟨1B⟩", "∅", "n" * 39 + "…"} <= set(found)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones(3), "is 3, expected positions × dimensions"),
        (np.ones((2, 3, 5)), "is 2 × 3 × 5, expected positions × dimensions"),
        (np.array(1.0), "is a single number, expected positions × dimensions"),
        (np.ones((0, 4)), "has no cells; expected at least 1 position and 1 dimension"),
        (np.full((2, 2), np.inf), "is not all finite numbers"),
    ],
)
def test_tables_that_cannot_be_drawn(table: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        draw_positions({"good": LECTURE_PD, "bad one": table}, tmp_path / "tables.svg")
    assert str(error.value) == f"position table 'bad one' {message}"
    with pytest.raises(DataError) as error:
        terminal_positions(table)
    assert str(error.value) == f"position table {message}"
    assert list(tmp_path.iterdir()) == []


def test_other_arguments_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no position tables to draw; expected at least 1"):
        draw_positions({}, tmp_path / "tables.svg")
    with pytest.raises(
        DataError, match="position tables with the same name; expected names that differ in their first 40 characters"
    ):
        draw_positions({"n" * 50: LECTURE_PD, "n" * 51: LECTURE_PD}, tmp_path / "tables.svg")
    with pytest.raises(DataError, match="0 positions to show; expected at least 1"):
        terminal_positions(LECTURE_PD, positions=0)


def test_the_table_in_plain_text() -> None:
    lines = printed(terminal_positions(LECTURE_PD, title="lecture"), color_system=None).splitlines()
    assert [line.rstrip() for line in lines] == [
        "lecture",
        "positions: 5, dimensions: 4",
        "pos        0        1        2        3",
        "  0   0.0000   1.0000   0.0000   1.0000",
        "  1   0.8415   0.5403   0.0100   1.0000",
        "  2   0.9093  -0.4161   0.0200   0.9998",
        "  3   0.1411  -0.9900   0.0300   0.9996",
        "  4  -0.7568  -0.6536   0.0400   0.9992",
        "",
        "similarity (cosine) of positions 0 to 4",
        "0 ████░░· ░░",
        "1 ██████░░·",
        "2 ░░██████░░",
        "3 · ░░██████",
        "4 ░░· ░░████",
        "· 0.00+  ░ 0.10+  ▒ 0.30+  ▓ 0.50+  █ 0.75+",
    ]


def test_shades_divide_the_range_of_cosines() -> None:
    lines = printed(terminal_positions(sinusoids(50, 64), positions=20), color_system=None).splitlines()
    assert lines[0] == "positions: first 20 of 50, dimensions: first 8 of 64"
    assert lines[-1] == "· 0.61+  ░ 0.64+  ▒ 0.72+  ▓ 0.80+  █ 0.90+"
    same = printed(terminal_positions(np.ones((3, 2))), color_system=None).splitlines()
    assert same[-4:-1] == ["0 ██████", "1 ██████", "2 ██████"]


@pytest.mark.parametrize("width", [14, 20, 40, 80, 200])
def test_every_line_fits_and_numbers_are_whole(width: int) -> None:
    lines = printed(terminal_positions(sinusoids(40, 24) * 1000, positions=37), width, color_system=None).splitlines()
    assert max(map(cell_len, lines)) <= width
    rows = [line.split() for line in lines if line.count(".") == len(line.split()) - 1 > 0 and "+" not in line]
    assert len(rows) == 37
    assert all(len(number.partition(".")[2]) == 4 for row in rows for number in row[1:])


def test_no_minus_before_zero() -> None:
    assert "-0.0000" not in printed(terminal_positions(np.full((2, 2), -1e-9)), color_system=None)


def test_colors_and_ascii() -> None:
    view = terminal_positions(np.array([[1.0], [-1.0], [0.0]]), width=30)
    colored = printed(view, force_terminal=True, color_system="truecolor")
    for color in ("103;0;31", "5;48;97", "247;247;247"):
        assert f"48;2;{color}" in colored
    assert "█" not in colored
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=out, width=80, _environ={}).print(view)
    out.flush()
    assert "0 ##. xx" in out.buffer.getvalue().decode("ascii")
