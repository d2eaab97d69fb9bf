"""Registrations: how PREREGISTERED.md is read."""

from __future__ import annotations

from weft.apps.labs.lab import Lab
from weft.apps.labs.registration import document, parse, registrations

SECTION = """example

**Claim.** Attention helps

**Tested.** Two LSTMs. Attention
adds 5 points.

**Would change our mind.** No gain.

| statistic | predicted |
|---|---|
| gain, in points | above 5 |
| largest \\|x\\| | below 1e−5 |

**Changes.** None.
"""


def test_a_section() -> None:
    registration = parse(SECTION)
    assert registration.claim == "Attention helps"
    assert registration.tested == "Two LSTMs. Attention adds 5 points."
    assert registration.doubt == "No gain."
    assert registration.checks == (("gain, in points", "above 5"), ("largest |x|", "below 1e−5"))


def test_the_file() -> None:
    assert "scaling" in registrations() and "2026-11-18" in document()
    assert all(registration.checks for registration in registrations().values())


def test_a_lab_that_is_not_registered() -> None:
    lab = Lab("example", "Attention helps", "A et al. 2015: 9 points.", "Two LSTMs.", 30, ("weft lab",))
    assert lab.tested == "Attention helps" and lab.doubt == ""
