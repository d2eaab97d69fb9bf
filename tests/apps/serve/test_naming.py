"""Runs as a command line names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.apps.serve.naming import parse_run
from weft.errors import DataError


def test_an_ensemble_and_a_folder_with_a_plus(tmp_path: Path) -> None:
    assert parse_run("runs/a") == Path("runs/a")
    assert parse_run("runs/a+runs/b") == (Path("runs/a"), Path("runs/b"))
    (tmp_path / "a+b").mkdir()
    assert parse_run(str(tmp_path / "a+b")) == tmp_path / "a+b"
    assert parse_run(f"{tmp_path / 'a+b'}:medical") == Path(f"{tmp_path / 'a+b'}:medical")
    with pytest.raises(DataError, match=r"^RUN: runs/a\+: \+ separates the run folders of an ensemble"):
        parse_run("runs/a+")
