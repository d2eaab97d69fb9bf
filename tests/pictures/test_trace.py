from __future__ import annotations

from pathlib import Path
from typing import get_args

from fixtures.beam_traces import SMALL, word
from weft.pictures.trace import VIEWS
from weft.search.trace import Trace


def test_every_kind_of_trace_has_a_view() -> None:
    assert set(VIEWS) == set(get_args(Trace))


def test_a_view_prints_and_draws(tmp_path: Path) -> None:
    view = VIEWS[type(SMALL)]
    assert "entarté" in view.terminal(SMALL, word, width=80, color=False, ascii_only=False)
    assert view.draw(SMALL, word, tmp_path / "tree.svg", title="he hit me").stat().st_size > 1000
