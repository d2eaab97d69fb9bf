"""Fixtures of the preparation tests."""

import pytest

from weft.data.reading import text_files


@pytest.fixture
def small_blocks(monkeypatch):
    """Files are read in blocks of three lines."""
    monkeypatch.setattr(text_files, "CHUNK_RECORDS", 3)
