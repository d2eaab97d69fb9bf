import io

import numpy as np
import pytest
from rich.console import Console

from weft.pictures.thumbnails import Thumbnail, terminal_thumbnails
from weft.tasks.drawn_digits import draw

THUMBNAILS = [
    Thumbnail(draw("pictures/12-6-0000000000aa.png"), "40+7", "train.tsv:1"),
    Thumbnail(np.zeros((1, 1, 3), np.uint8), "\x1b[31mé"),
    Thumbnail(np.full((90, 3_000), 255, np.uint8), ""),
]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("colored", [False, True])
def test_terminal(colored, encoding):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    system = "truecolor" if colored else None
    console = Console(file=file, width=50, color_system=system, force_terminal=colored, _environ={})
    if colored and encoding == "ascii":
        return  # such a terminal has no half blocks; Windows shows them in any case
    console.print(terminal_thumbnails(THUMBNAILS, lines=5))
    file.flush()
    text = file.buffer.getvalue().decode(encoding)
    assert ("train.tsv:1  24 × " in text) == (encoding == "utf-8") and "  40+7" in text and "(empty)" in text
    assert "\x1b[31mé" not in text and ("▀" in text) == colored
    if not colored:
        assert max(map(len, text.splitlines())) <= 50


def test_sizes():
    assert THUMBNAILS[2].size == "90 × 3,000"
