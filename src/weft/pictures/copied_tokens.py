"""Which tokens a model has copied, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from weft.pictures.labels import shorten, visible
from weft.pictures.terminal import ascii_text

LONGEST_TOKEN = 24


def terminal_copied_tokens(
    tokens: Sequence[str], copied: Sequence[float], gates: Sequence[float], *, ascii_only: bool = False
) -> str:
    """A line for each token: the share of its probability that was copied, and the gate g."""
    names = [shorten(visible(token), LONGEST_TOKEN) for token in tokens]
    if ascii_only:
        names = [ascii_text(name) for name in names]
    width = max(map(cell_len, ["token", *names]))
    lines = [f"{'token':<{width}}  copied     g"]
    for name, share, gate in zip(names, copied, gates, strict=True):
        lines.append(f"{name}{' ' * (width - cell_len(name))}  {share:>6.2f}  {gate:>4.2f}")
    return "\n".join(lines)
