"""The interface of a report's sections."""

from __future__ import annotations

import math
from typing import Any, Protocol

from weft.pictures.html.elements import Html, element


class Section(Protocol):
    """A section: its numbers, and how they are shown."""

    @property
    def key(self) -> str:
        """Its name in JSON, and the id of its heading."""

    @property
    def title(self) -> str: ...

    def record(self) -> Any:
        """The numbers, for JSON."""

    def html(self) -> Html: ...


def paragraph(*parts: str) -> Html:
    """Prose."""
    return element("p", *parts)


def note(*parts: str) -> Html:
    """Prose that explains a figure."""
    return element("p", *parts, class_="faint small")


def score_text(value: float) -> str:
    """A score in percent, or a rate: two decimals."""
    return f"{value:.2f}"


def probability_text(log_probability: float) -> str:
    """A probability with two or three digits, however small: 0.253, 4.1e−7."""
    if log_probability > math.log(0.001):
        return f"{math.exp(min(log_probability, 0.0)):.3f}"
    exponent = math.floor(log_probability / math.log(10)) if math.isfinite(log_probability) else 0
    if not exponent:
        return "0"
    return f"{math.exp(log_probability - exponent * math.log(10)):.1f}e{exponent}".replace("-", "−")


def interval_text(interval: tuple[float, float] | None) -> str:
    """A 95 % interval; empty if there is none."""
    return "" if interval is None else "[{:.2f}, {:.2f}]".format(*interval)
