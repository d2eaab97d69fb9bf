"""Checksums: every changed value is noticed; files without one are accepted."""

import pytest

from weft.errors import CheckpointError
from weft.files import check_checksum, file_checksum, with_checksum

CONTENT = {"step": 5, "rates": [0.1, 0.2], "name": "été"}


def test_a_checksum_is_compared_and_removed():
    content = with_checksum(CONTENT)
    check_checksum(content, where="x")
    assert content == CONTENT


def test_another_value_is_one_line():
    with pytest.raises(CheckpointError) as refused:
        check_checksum({**with_checksum(CONTENT), "step": 6}, where="x")
    assert str(refused.value) == "x: damaged (its content does not match its checksum); restore it from a copy"


def test_without_a_checksum():
    check_checksum(dict(CONTENT), where="x")


def test_of_a_file(tmp_path):
    (tmp_path / "x").write_bytes(b"123456789")
    assert file_checksum(tmp_path / "x") == "cbf43926", "the check value of CRC-32"
