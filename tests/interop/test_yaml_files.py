"""YAML of Marian: names and values, and nothing that makes objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import CheckpointError
from weft.interop import yaml_files
from weft.interop.yaml_files import parse_yaml, read_yaml

pytest.importorskip("yaml")


def test_values() -> None:
    content = b"a: 1\nno: true\n'7': x\n"
    assert parse_yaml(content, where="f") == {"a": 1, False: True, "7": "x"}
    assert parse_yaml(content, where="f", as_text=True) == {"a": "1", "no": "true", "7": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "f: not valid YAML (while parsing a flow node"),
        (b"\xff", "f: not valid YAML ("),
        (b"!!python/object/apply:os.getcwd []", "f: not valid YAML (could not determine a constructor for the tag"),
        (b"- a", "f: expected names and values"),
        (b"", "f: expected names and values"),
    ],
)
def test_refused(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError) as error:
        parse_yaml(content, where="f")
    assert str(error.value).startswith(message) and "\n" not in str(error.value) and len(str(error.value)) < 150


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.yml"
    with pytest.raises(CheckpointError, match=r"f.yml: cannot be read \(No such file or directory\)$"):
        read_yaml(path)
    path.write_text("a: 1\n", "utf-8")
    assert read_yaml(path) == {"a": 1} and read_yaml(path, as_text=True) == {"a": "1"}
    monkeypatch.setattr(yaml_files, "MAX_BYTES", 4)
    with pytest.raises(CheckpointError, match=r"f.yml: larger than 4 bytes, the limit for this kind of file"):
        read_yaml(path)
