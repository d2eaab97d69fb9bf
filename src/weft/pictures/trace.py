"""The view of each kind of search trace: a tree for a beam, a path for greedy search and sampling.

To add one, write its file and add a line to `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from weft.pictures.search_path import draw_path, terminal_path
from weft.pictures.search_tree import terminal_tree
from weft.pictures.search_tree_picture import draw_tree
from weft.search.trace import BeamTrace, PathTrace


class TraceView(NamedTuple):
    """The two functions of a view."""

    terminal: Callable[..., str]
    """``(trace, label, *, width, color, ascii_only)``: the lines to print."""
    draw: Callable[..., Path]
    """``(trace, label, to, *, title)``: the picture, written."""


VIEWS: dict[type[Any], TraceView] = {
    BeamTrace: TraceView(terminal_tree, draw_tree),
    PathTrace: TraceView(terminal_path, draw_path),
}
