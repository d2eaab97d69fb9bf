from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from weft.errors import DataError
from weft.pictures import attention_map
from weft.pictures.attention_map import draw_map, terminal_map

SOURCE = ["the", "red", "house", "</s>", "$x$"]
TARGET = ["la", "maison", "rouge"]
WEIGHTS_TS = np.array([[0.8, 0.1, 0.1, 0.0, 0.0], [0.1, 0.0, 0.8, 0.1, 0.0], [0.0, 0.4, 0.3, 0.1, 0.2]])


def printed(view: object, width: int = 80, **settings) -> str:
    out = io.StringIO()
    Console(file=out, width=width, _environ={}, **settings).print(view)
    return out.getvalue()


def test_the_map_in_plain_text() -> None:
    lines = printed(terminal_map(WEIGHTS_TS, SOURCE, TARGET, title="a map"), color_system=None).splitlines()
    assert [line.rstrip() for line in lines] == [
        "a map",
        "       ┌ the",
        "       │ ┌ red",
        "       │ │ ┌ house",
        "       │ │ │ ┌ </s>",
        "       │ │ │ │ ┌ $x$",
        "    la ██░░░░· ·",
        "maison ░░· ██░░·",
        " rouge · ▓▓▒▒░░░░",
        "",
        "       ░ 0.08+  ▒ 0.24+  ▓ 0.4+  █ 0.6+",
    ]


def test_colors_where_the_terminal_has_them() -> None:
    view = terminal_map(WEIGHTS_TS, SOURCE, TARGET)
    colored = printed(view, force_terminal=True, color_system="truecolor")
    assert "48;2;8;48;107" in colored  # the largest weight: deep blue
    assert "48;2;255;255;255" in colored  # none: white
    assert "█" not in colored
    for plain in ({"no_color": True, "color_system": "truecolor"}, {"color_system": "standard"}, {}):
        text = printed(view, force_terminal=True, **plain) if plain else printed(view)
        assert "██" in text
        assert "48;2" not in text


def test_terminals_without_unicode_get_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=out, width=80, _environ={}).print(terminal_map(WEIGHTS_TS, SOURCE, ["là", "日", " "]))
    out.flush()
    text = out.buffer.getvalue().decode("ascii")
    assert "##" in text
    assert "l\\xe0" in text


@pytest.mark.parametrize("width", [20, 37, 80, 200])
def test_every_line_fits_and_every_column_is_shown(width: int) -> None:
    source = [f"source{index}" for index in range(41)]
    target = [f"target{index}" for index in range(7)]
    weights_TS = np.eye(7, 41)
    lines = printed(terminal_map(weights_TS, source, target), width, color_system=None).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert sum("┌" in line for line in lines) == 41
    assert sum(line.count("██") for line in lines) == 7
    assert any("source 1 to" in line for line in lines) == (width < 200)


def test_width_can_be_given() -> None:
    view = terminal_map(np.ones((2, 31)), ["w"] * 31, ["a", "b"], width=30)
    assert max(map(cell_len, printed(view, 100, color_system=None).splitlines())) <= 30


def test_wide_characters_and_marks_keep_the_cells_in_line() -> None:
    target = ["日本語", "e\u0301te\u0301", "मैं", "한국어の長い言葉です", "x", " "]
    lines = printed(terminal_map(np.eye(6, 2)[:, ::-1] + 1, ["私", "は"], target), color_system=None).splitlines()
    rows = lines[2:8]
    assert len({cell_len(row) for row in rows}) == 1
    assert lines[1].index("┌") == lines[0].index("┌") + 2


@pytest.mark.parametrize(
    ("weights_TS", "source", "target", "message"),
    [
        (WEIGHTS_TS.T, SOURCE, TARGET, "attention weights are 5 × 3, expected 3 target × 5 source tokens"),
        (np.zeros((0, 5)), SOURCE, [], "attention map has no cells; expected at least 1 source and 1 target token"),
        (WEIGHTS_TS - 1, SOURCE, TARGET, "attention weights are not all finite and at least 0"),
        (WEIGHTS_TS * np.nan, SOURCE, TARGET, "attention weights are not all finite and at least 0"),
    ],
)
def test_maps_that_make_no_sense(weights_TS, source, target, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        terminal_map(weights_TS, source, target)
    assert str(error.value) == message
    with pytest.raises(DataError):
        draw_map(weights_TS, source, target, tmp_path / "map.svg")
    assert list(tmp_path.iterdir()) == []


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_svg_keeps_text_as_text(tmp_path: Path) -> None:
    source = ["日本語", "हिन्दी", "مرحبا", "🙂", "$x^2$", "<s> & co"]
    target = [" ", "\n", "\x1b", "_a_{b}", "\\frac", "", "$"]
    path = draw_map(np.ones((7, 6)), source, target, tmp_path / "map.svg", title="cost $5 and $6")
    found = texts(path)
    assert {"日本語", "हिन्दी", "مرحبا", "🙂", "$x^2$", "<s>␣&␣co", "cost $5 and $6"} <= set(found)
    assert {"␣", "⏎", "⟨1B⟩", "_a_{b}", "\\frac", "∅", "$"} <= set(found)


def test_the_picture_grows_with_the_tokens(tmp_path: Path) -> None:
    small = draw_map(np.eye(5, 7), ["word"] * 7, ["word"] * 5, tmp_path / "small.svg")
    large = draw_map(np.eye(40, 43), ["word"] * 43, ["word"] * 40, tmp_path / "large.svg")
    assert texts(large).count("word") == 83
    widths = [float(ElementTree.parse(path).getroot().attrib["width"].removesuffix("pt")) for path in (small, large)]
    assert widths[1] > 43 * 18  # a cell is twice as high as its 9-point label
    assert widths[0] < 400


def test_labels_stay_inside_the_picture(tmp_path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    wide = ["W" * 20, "i", "M" * 24]
    figure = attention_map._figure(np.ones((2, 3)), wide, ["W" * 18, "a"], "a title " * 6, ["DejaVu Sans"])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axes = figure.axes[0]
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels(), *figure.texts]:
        box = text.get_window_extent(canvas.get_renderer())
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
