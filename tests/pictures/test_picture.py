"""Writing pictures: what holds for every view, tested with all of them or with an attention map."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from fixtures.beam_traces import SMALL, word
from weft.errors import DataError
from weft.pictures import fonts, picture
from weft.pictures.attention_map import draw_map
from weft.pictures.heads import draw_heads
from weft.pictures.positions import draw_positions
from weft.pictures.search_path import draw_path
from weft.pictures.search_tree_picture import draw_tree
from weft.search.trace import Draw, PathTrace
from weft.translation.results import HeadAttention

SOURCE, TARGET = ["the", "red", "house"], ["la", "maison"]
WEIGHTS_TS = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
PATH = PathTrace([Draw([3, 4], [0.75, 0.25], [True, False], 0, 0.75, 1)])
VIEWS: dict[str, Callable[..., Path]] = {
    "map": lambda to, **options: draw_map(WEIGHTS_TS, SOURCE, TARGET, to, **options),
    "heads": lambda to, **options: draw_heads(
        [HeadAttention("cross", 1, 1, WEIGHTS_TS, SOURCE, TARGET)], to, **options
    ),
    "positions": lambda to, **options: draw_positions({"table": WEIGHTS_TS}, to, **options),
    "path": lambda to, **options: draw_path(PATH, str, to, **options),
    "tree": lambda to, **options: draw_tree(SMALL, word, to, **options),
}
draw = VIEWS["map"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_gives_the_same_bytes_twice(view: str, tmp_path: Path) -> None:
    path = VIEWS[view](tmp_path / "picture.svg", title="two\nlines")
    first = path.read_bytes()
    assert first.startswith(b"<?xml")
    assert VIEWS[view](str(path), title="two\nlines") == path
    assert path.read_bytes() == first and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("suffix", "start"), [("PNG", b"\x89PNG"), ("pdf", b"%PDF")])
def test_formats(suffix: str, start: bytes, tmp_path: Path) -> None:
    first, second = (draw(tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first.startswith(start) and first == second


@pytest.mark.parametrize("view", VIEWS)
def test_an_svg_follows_the_page_into_the_dark(view: str, tmp_path: Path) -> None:
    text = VIEWS[view](tmp_path / "picture.svg").read_text("utf-8")
    assert text.count(f"<style>{picture.DARK}</style>") == 1 and "prefers-color-scheme: dark" in picture.DARK
    assert picture.DARK.startswith("@media screen ")  # prints are light


def test_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"map.jpg: cannot draw a picture of type 'jpg'; choose one of svg, png, pdf"):
        draw(tmp_path / "map.jpg")


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent/map.svg: cannot be written: No such file or directory"):
        draw(tmp_path / "absent" / "map.svg")


def test_a_failed_drawing_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(b"old")

    def fail(figure: object, file: BinaryIO, suffix: str) -> None:
        file.write(b"half a pict")
        raise KeyboardInterrupt

    monkeypatch.setattr(picture, "_save", fail)
    with pytest.raises(KeyboardInterrupt):
        draw(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_missing_glyphs_are_reported_once(suffix: str, tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(picture, "choose", lambda text: fonts.FontChoice(["DejaVu Sans"], "日本語学生は"))
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        draw_map(np.ones((1, 3)), ["日本語", "学生", "は"], ["a"], tmp_path / f"map.{suffix}")
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (suffix == "png")
    for message in messages:
        assert "no installed font has 日 (U+65E5), 本 (U+672C)" in message
        assert "and 1 more; boxes are drawn. An .svg shows them." in message


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    code = (
        "import sys, numpy, weft.pictures.attention_map as m, weft.pictures.heads, weft.pictures.positions\n"
        "assert 'matplotlib' not in sys.modules and 'torch' not in sys.modules\n"
        "import matplotlib\n"
        "settings = lambda: [matplotlib.rcParams[key] for key in matplotlib.rcParams if key != 'backend']\n"
        "before = settings()\n"
        f"m.draw_map(numpy.ones((1, 1)), ['a'], ['b'], {str(tmp_path / 'map.svg')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_may_draw_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"map{index}.{suffix}" for index in range(2) for suffix in ("svg", "png")]
    threads = [threading.Thread(target=draw, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert len({path.read_bytes() for path in paths}) == 2
