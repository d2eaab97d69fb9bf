"""Warnings about outputs that were cut off by the length limit, or by the node limit of an exact search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import warn

if TYPE_CHECKING:
    from weft.recipe import SearchSettings


def cut_off_outputs(count: int, outputs: int) -> str:
    """How many outputs reached the length limit, in words; empty if none did."""
    if not count:
        return ""
    return f"{count:,} of {outputs:,} {'output' if outputs == 1 else 'outputs'} reached the length limit"


def warn_of_cut_off(count: int, outputs: int, settings: SearchSettings, option: str | None = None) -> None:
    """A warning on stderr that says what to raise: a setting, or ``option``; none if no output reached the limit."""
    if count:
        setting = option or "search.max_ratio or search.max_extra"
        setting = "search.max_length" if settings.max_length else setting
        warn(f"{cut_off_outputs(count, outputs)}; raise {setting}")


def warn_of_unproven(count: int, outputs: int, settings: SearchSettings) -> None:
    """A warning that an exact search gave up on some outputs; none if it did not."""
    if settings.kind == "exact" and count:
        warn(
            f"{count:,} of {outputs:,} {'output is' if outputs == 1 else 'outputs are'} not proven to be the best; "
            f"raise search.max_nodes = {settings.max_nodes:,}"
        )
