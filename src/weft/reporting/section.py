"""What every section of a report has."""

from __future__ import annotations

from typing import Any, Protocol

from weft.markup.elements import Html, element


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


def interval_text(interval: tuple[float, float] | None) -> str:
    """A 95 % interval; empty if there is none."""
    return "" if interval is None else "[{:.2f}, {:.2f}]".format(*interval)
