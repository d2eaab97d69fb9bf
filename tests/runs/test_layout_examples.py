"""examples.json: written and read, whatever is in it."""

import pytest

from weft.runs.layout import EXAMPLES_NAME, read_examples, write_examples


def test_written_and_read(tmp_path):
    assert read_examples(tmp_path) == []
    write_examples(tmp_path, ["ein Haus", "zwei"])
    assert read_examples(tmp_path) == ["ein Haus", "zwei"]


@pytest.mark.parametrize("content", ["", "{", "{}", "3", "[[", "[" * 100_000, '"a"', "[1, null]", '["", " "]'])
def test_damaged_files_have_none(tmp_path, content):
    (tmp_path / EXAMPLES_NAME).write_text(content, "utf-8")
    assert read_examples(tmp_path) == []


def test_limits(tmp_path):
    write_examples(tmp_path, ["x" * 1_001, *map(str, range(20))])
    assert read_examples(tmp_path) == [*map(str, range(8))]
    write_examples(tmp_path, ["x" * 900] * 100)
    assert read_examples(tmp_path) == []  # the file is too large
