"""The table of copied tokens."""

from __future__ import annotations

from weft.pictures.terminal import terminal_copied_tokens


def test_a_line_for_each_token() -> None:
    table = terminal_copied_tokens(["Zoë", "東京", "a b", "x" * 30], [1.0, 0.0, 0.125, 0.5], [0.0, 1.0, 0.875, 0.25])
    header, *lines = table.splitlines()
    assert header.split() == ["token", "copied", "g"]
    assert [line.split() for line in lines[:2]] == [["Zoë", "1.00", "0.00"], ["東京", "0.00", "1.00"]]
    assert lines[2].split()[-2:] == ["0.12", "0.88"]
    assert lines[3].startswith("x" * 23 + "…  ")
    assert lines[0].index("1.00") == header.index("copied") + 2


def test_in_ascii() -> None:
    assert terminal_copied_tokens(["Zoë"], [1.0], [0.0], ascii_only=True).isascii()
