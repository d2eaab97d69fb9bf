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


def test_a_wide_table_is_shown_in_parts() -> None:
    table = Table(
        ("model", "first column", "second column", "third column"), [("dot", 1.0, 2.0, 3.0)], "A caption of it"
    )
    lines = [line.plain for line in table_lines(table, 24)]
    assert max(map(len, lines)) <= 24
    assert len([line for line in lines if line.startswith("dot")]) == 2
    assert sorted("".join(lines).count(value) for value in ("1", "2", "3")) == [1, 1, 1]
    assert [line.plain for line in table_lines(table)] == [line.plain for line in table_lines(table, 200)]
