import io
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from weft.data.arrays.pictures import read_picture
from weft.errors import DataError
from weft.pictures.attention_panels import (
    LONGEST,
    MAX_PANELS,
    AttentionPanels,
    draw_panels,
    panels_of,
    terminal_panels,
)
from weft.recipe.stem import StemSettings

RANDOM = np.random.default_rng(5)
LINE = AttentionPanels(RANDOM.integers(0, 256, (24, 35), np.uint8), ["4", "</s>"], RANDOM.random((2, 9)), (24, 4))
GRID = AttentionPanels(
    RANDOM.integers(0, 256, (31, 47, 3), np.uint8), ["\\frac", "<b>", "é"], RANDOM.random((3, 2, 3)), (16, 16)
)
SMALLEST = AttentionPanels(np.full((1, 1), 7, np.uint8), ["x"], np.ones((1, 1, 1)), (8, 8))
EACH = pytest.mark.parametrize("panels", [LINE, GRID, SMALLEST], ids=["line", "grid", "1x1"])


def printed(panels, *, colored=False, encoding="utf-8", width=60):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    system = "truecolor" if colored else None
    console = Console(file=file, width=width, color_system=system, force_terminal=colored, _environ={})
    console.print(terminal_panels(panels))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@EACH
def test_cells_cover_the_picture_once(panels):
    covered = np.zeros(panels.picture.shape[:2], int)
    for (left, top, width, height), share in panels.cells(0, smallest=-1):
        covered[top : top + height, left : left + width] += 1
        assert 0 <= share <= 1
    assert (covered == 1).all()


def test_cells_have_their_weights():
    shares_HW = GRID.shares(1)
    for row in range(31):
        for column in range(47):
            assert shares_HW[row, column] == GRID.weights_THW[1, row // 16, column // 16] / GRID.weights_THW[1].max()
    assert LINE.shares(0)[5, 33] == LINE.shares(0)[23, 32] == LINE.weights_THW[0, 0, 8] / LINE.peak(0)


def test_a_token_without_attention():
    panels = AttentionPanels(LINE.picture, ["a"], np.zeros((1, 9)), (24, 4))
    assert panels.peak(0) == 1 and not panels.shares(0).any() and printed(panels)


def test_a_panel_of_a_long_line_shows_its_attention():
    width = 5_000
    weights = np.zeros((3, 1250))
    weights[[0, 1, 2], [0, 700, 1249]] = 1
    panels = AttentionPanels(np.zeros((24, width), np.uint8), list("abc"), weights, (24, 4))
    windows = [panels.window(token) for token in range(3)]
    assert windows[0][0] == 0 and windows[2][1] == width and all(end - start == LONGEST * 24 for start, end in windows)
    assert windows[1][0] < 2800 < windows[1][1]
    assert LINE.window(0) == (0, 35)


@EACH
@pytest.mark.parametrize("suffix", ["svg", "html", "png", "pdf"])
def test_files(panels, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    assert draw_panels(panels, path, title="<title>") == path
    first = path.read_bytes()
    draw_panels(panels, path, title="<title>")
    assert path.read_bytes() == first, "the same panels, the same bytes"
    if suffix == "png":
        picture = read_picture(first, "a.png")
        assert picture.shape[1] > 20 and picture.min() < 128 < picture.max()
    elif suffix != "pdf":
        text = first.decode("utf-8")
        assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "").replace(
            "http-", ""
        )
        assert "<title>" not in text.replace("<title>", "", text.count("</title>"))
    if suffix == "svg":
        root = ET.fromstring(first)
        assert len([part for part in root.iter() if part.tag.endswith("}use")]) == len(panels.tokens)


def test_an_animation(tmp_path):
    path = draw_panels(GRID, tmp_path / "a.svg", animated=True)
    root = ET.fromstring(path.read_text("utf-8"))
    steps = [part for part in root.iter() if "step" in part.get("class", "")]
    assert [step.get("style") for step in steps] == [f"animation-delay: {delay}s" for delay in ("0.0", "0.9", "1.8")]
    assert "2.7s linear infinite" in path.read_text("utf-8")


def test_terminal():
    text = printed(LINE)
    lines = text.splitlines()
    assert lines[0].startswith(f"4    {LINE.peak(0):.2f}  ") and f"</s> {LINE.peak(1):.2f}" in text
    assert len(lines) == 2 * 7 and max(map(len, lines)) <= 60
    colored = printed(GRID, colored=True)
    assert "▀" in colored and "38;2;" in colored
    assert printed(GRID, encoding="ascii").isascii()
    assert all(len(line) <= 20 for line in printed(GRID, width=20).splitlines())


def test_more_tokens_than_panels(tmp_path):
    panels = AttentionPanels(np.zeros((1, 2), np.uint8), ["a"] * (MAX_PANELS + 2), np.ones((MAX_PANELS + 2, 2)))
    assert "and 2 more tokens" in printed(panels)
    assert "and 2 more tokens" in draw_panels(panels, tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("tokens", "weights", "message"),
    [
        ("ab", np.ones((2, 8)), "attention weights are 2 × 8, expected 2 tokens × 1 rows × 9 columns of cells"),
        ("ab", np.ones((3, 9)), "attention weights are 3 × 9, expected 2 tokens × 1 rows × 9 columns of cells"),
        ("ab", np.ones((2, 9, 1)), "attention weights are 2 × 9 × 1, expected 2 tokens × 1 rows × 9 columns of cells"),
        ("ab", np.ones(18), "attention weights are 18, expected 2 tokens × 1 rows × 9 columns of cells"),
        ("", np.ones((0, 9)), "attention on a picture has no panels; expected at least 1 token"),
        ("a", np.full((1, 9), np.nan), "attention weights are not all finite and at least 0"),
        ("a", np.full((1, 9), -1.0), "attention weights are not all finite and at least 0"),
    ],
)
def test_messages(tokens, weights, message):
    with pytest.raises(DataError) as caught:
        AttentionPanels(LINE.picture, list(tokens), weights, (24, 4))
    assert str(caught.value) == message


def test_files_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match=r"cannot draw a picture of type 'gif'; choose one of svg, html, png, pdf$"):
        draw_panels(LINE, tmp_path / "a.gif")
    with pytest.raises(DataError, match=r"a\.svg: cannot be written: No such file or directory$"):
        draw_panels(LINE, tmp_path / "none" / "a.svg")


def run_of(stem, array):
    """As much of a run as the panels of a translation need."""
    tokenizer = SimpleNamespace(read=lambda name: array)
    settings = SimpleNamespace(
        model=SimpleNamespace(stem=stem), tokenizer=SimpleNamespace(reads_arrays=stem.kind != "none")
    )
    return SimpleNamespace(recipe=settings, tokenizers=SimpleNamespace(source=tokenizer))


@pytest.mark.parametrize(
    ("kind", "array", "cells", "strides"),
    [
        ("columns", np.zeros((24, 35, 1), np.uint8), (1, 9), (24, 4)),
        ("grid", np.zeros((31, 47, 3), np.uint8), (4, 6), (8, 8)),
        ("frames", RANDOM.random((37, 5)), (1, 10), (5, 4)),
    ],
)
def test_panels_of_a_translation(kind, array, cells, strides):
    """The cells are those of the stem: three stages, each of which divides the sides by its strides, rounded up."""
    weights_TS = RANDOM.random((2, cells[0] * cells[1]))
    translation = SimpleNamespace(source="a.png", tokens=["1", "2"], attention=weights_TS)
    panels = panels_of(run_of(StemSettings(kind=kind), array), translation)
    assert panels.strides == strides and panels.weights_THW.shape == (2, *cells)
    assert np.array_equal(panels.weights_THW.reshape(2, -1), weights_TS)
    assert panels.picture.shape[:2] == (array.shape[:2] if kind != "frames" else array.shape[::-1])


def test_texts_have_no_panels():
    translation = SimpleNamespace(source="a", tokens=["1"], attention=np.ones((1, 1)))
    assert panels_of(run_of(StemSettings(), None), translation) is None
    translation = SimpleNamespace(source="a.png", tokens=["1"], attention=None)
    assert panels_of(run_of(StemSettings(kind="grid"), np.zeros((2, 2, 1), np.uint8)), translation) is None
