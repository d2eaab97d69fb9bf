from __future__ import annotations

import pytest
from rich.text import Text

from weft.pictures.terminal import BLUES, Shading, interpolate, printable, render_lines


@pytest.mark.parametrize(
    ("value", "color"),
    [(0.0, BLUES[0]), (1.0, BLUES[-1]), (0.2, BLUES[1]), (0.1, (238, 245, 251)), (-1.0, BLUES[0]), (2.0, BLUES[-1])],
)
def test_interpolate(value: float, color: tuple[int, int, int]) -> None:
    assert interpolate(BLUES, value) == color


def test_shades_and_their_key() -> None:
    plain = Shading(colored=False, ascii_only=False)
    assert "".join(plain.cell(value).plain for value in (0.05, 0.1, 0.3, 0.5, 1.0)) == "· ░░▒▒▓▓██"
    assert plain.key(0.5).plain == "░ 0.05+  ▒ 0.15+  ▓ 0.25+  █ 0.38+"
    assert Shading(colored=False, ascii_only=True).cell(1.0).plain == "##"
    assert Shading(colored=True, ascii_only=False).key(0.5).plain == f"0 {' ' * 18} 0.5"


def test_labels_in_ascii() -> None:
    assert printable(lambda token: "é\n", ascii_only=False)(0) == "é⏎"
    assert printable(lambda token: "é\n", ascii_only=True)(0) == "\\xe9\\u23ce"


def test_prose_is_wrapped_and_other_lines_are_cropped() -> None:
    lines = [Text("a line of text", style="dim"), Text("a line of text")]
    assert render_lines(lines, 8, color=False, ascii_only=False) == "a line\nof text\na line o\n"
