"""Fixtures of the preparation tests."""

import pytest

from weft.data.reading import blocks


@pytest.fixture
def small_blocks(monkeypatch):
    """Files are read in blocks of three lines."""
    monkeypatch.setattr(blocks, "CHUNK_RECORDS", 3)
