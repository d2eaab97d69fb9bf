"""A result in the terminal."""

from __future__ import annotations

from dataclasses import replace

from weft.apps.labs.lab import LabResult
from weft.apps.labs.text import seeds_text


def test_everything_is_said(result: LabResult) -> None:
    lines = result.text(80).splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    for part in (
        "A gap of 35 points",
        "Verdict   inconclusive. Attention adds 35 points.",
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


def test_seeds(result: LabResult) -> None:
    assert seeds_text(replace(result, seeds=(4,))) == "4"
    assert seeds_text(replace(result, seeds=())) == "none"
    assert "a quick run" in seeds_text(replace(result, quick=True))
