"""Key files: hashes only, and a line number where one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.apps.serve.keys import MAX_BYTES, Keys, digest, new_key
from weft.errors import DataError


def test_new_keys_are_accepted_and_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first, second = new_key(path, "the web site"), new_key(path, "  a\nscript ")
    content = path.read_text("utf-8")
    assert first not in content and second not in content and first != second and len(first) >= 32
    keys = Keys.read(path)
    assert sorted(keys.names.values()) == ["a script", "the web site"]
    assert keys.client(first) == digest(first)
    assert keys.client("other") is None
    assert keys.client("\ud800") is None


def test_others_cannot_read_a_key_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    new_key(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    new_key(path, "b")
    assert path.stat().st_mode & 0o777 == 0o640, "as its owner has chosen"


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(DataError, match="keys: no such file; make a key with `weft serve --new-key NAME"):
        Keys.read(path)
    for content, words in (
        (b"", "no keys; make one with `weft serve --new-key NAME --key-file"),
        (b"# a comment\n\nsecret\n", "keys:3: not the hash of a key; make a key with"),
        (b"\xff", "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "keys: larger than .* bytes, the limit for this kind of file"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            Keys.read(path)
    with pytest.raises(DataError, match="the name is empty"):
        new_key(tmp_path / "new", " ")
    path.write_bytes(b"secret\n")
    with pytest.raises(DataError, match="not the hash"):
        new_key(path, "name")
    assert path.read_bytes() == b"secret\n"
