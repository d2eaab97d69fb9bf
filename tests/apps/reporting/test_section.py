"""Numbers as text."""

from __future__ import annotations

import math

from weft.apps.reporting.section import interval_text, probability_text


def test_probabilities_of_any_size() -> None:
    values = [0.0, math.log(0.5), math.log(0.00042), -1000.0, -math.inf, 1e-9]
    assert [probability_text(value) for value in values] == ["1.000", "0.500", "4.2e−4", "5.1e−435", "0", "1.000"]


def test_intervals() -> None:
    assert interval_text((1.0, 2.345)) == "[1.00, 2.35]" and interval_text(None) == ""
