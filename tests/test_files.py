"""Files: written whole, and read within limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import CheckpointError, DataError
from weft.files import read_bounded, read_json


def test_read_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, "é"]}', "utf-8")
    assert read_json(path) == {"a": [1, "é"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", r"damaged; it is not valid JSON \(line 1, column 2\)"),
        (b"", r"damaged; it is not valid JSON"),
        (b'"\xff"', r"damaged; it is not valid JSON \(it is not UTF-8\)"),
        (b"[" * 100_000, r"damaged; its JSON is nested too deeply"),
        (b'{"a":' * 100_000, r"damaged; its JSON is nested too deeply"),
        (b"1" * 5_000, r"damaged; its JSON has a number with too many digits"),
        (b" " * (1 << 20) + b"1", r"larger than 1,048,576 bytes, the limit for this kind of file"),
    ],
)
def test_damaged_json_is_an_error_of_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.json: {reason}") as error:
        read_json(path, max_bytes=1 << 20, error=DataError)
    assert "\n" not in str(error.value)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(CheckpointError, match="not a regular file"):
            read_bounded(path, max_bytes=10)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, max_bytes=10)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")
