"""Files of probes: shipped ones by name, others by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.apps.probes.toml_files import FileKind
from weft.errors import DataError

TABLES = FileKind("table", "tables", ("title", "search", "next"))


def test_by_name_and_by_path(tmp_path: Path) -> None:
    path, tree = TABLES.read("pie")
    assert path in TABLES.shipped() and tree["search"]["size"] == 2
    assert TABLES.read(path) == (path, tree)
    (tmp_path / "mine.toml").write_text("title = 'a'", "utf-8")
    assert TABLES.read(str(tmp_path / "mine.toml"))[1] == {"title": "a"}


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"pies: no such table; expected a TOML file or a shipped table: did you mean 'pie'?"
    ):
        TABLES.read("pies")
    (tmp_path / "mine.toml").write_text("titel = 'a'", "utf-8")
    with pytest.raises(DataError, match=r"mine\.toml: titel: unknown; did you mean 'title'?"):
        TABLES.read(tmp_path / "mine.toml")
