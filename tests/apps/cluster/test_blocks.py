"""Files as blocks and back: text, JSON lines and Parquet; every line in its place, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from weft.apps.cluster import blocks as cluster_blocks
from weft.apps.cluster.blocks import BlockTask, WindowOutput, find_blocks, merge_blocks, translate_to_files
from weft.data.reading.lines import BadLine
from weft.errors import DataError

LINES = ["a", "", "b c", "d\re", "é", "f", "g"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_blocks, "BLOCK_LINES", 3)


def upper(windows):
    """Reads two windows ahead."""
    waiting = []
    for window in windows:
        texts = ["?" if isinstance(one, BadLine) else one.upper() for one in window.sources]
        lines = "".join(f"{number} {text}\n" for number, text in enumerate(texts, window.first_line))
        waiting.append(WindowOutput(texts, lines))
        if len(waiting) > 2:
            yield waiting.pop(0)
    yield from waiting


def translated(path: Path, column: str = "source") -> Path:
    blocks = find_blocks(str(path))
    outputs = [path.parent / f"block-{block.number}" for block in blocks]
    for output in outputs:
        output.unlink(missing_ok=True)
    work = [BlockTask(block, str(output)) for block, output in zip(blocks, outputs, strict=True)]
    translate_to_files(reversed(work), upper, column=column)
    merge_blocks(outputs, path.parent / "out", parquet=path.suffix == ".parquet")
    return path.parent / "out"


@pytest.mark.parametrize("end", ["\n", ""])
def test_lines(tmp_path, end) -> None:
    path = tmp_path / "source.txt"
    path.write_bytes(("\n".join(LINES) + end).encode())
    assert [block.lines for block in find_blocks(str(path))] == [3, 3, 1]
    found = translated(path).read_bytes().decode().removesuffix("\n").split("\n")
    assert found == [f"{number} {line.upper()}" for number, line in enumerate(LINES, 1)]


def test_a_line_that_is_not_utf8_and_an_empty_file(tmp_path) -> None:
    path = tmp_path / "source.txt"
    path.write_bytes(b"a\n\xff\nb\n")
    assert translated(path).read_text() == "1 A\n2 ?\n3 B\n"
    path.write_bytes(b"")
    assert find_blocks(str(path)) == []
    assert translated(path).read_text() == ""


def test_json_lines(tmp_path) -> None:
    path = tmp_path / "source.jsonl"
    path.write_text("".join(json.dumps({"id": number, "source": line}) + "\n" for number, line in enumerate(LINES)))
    records = [json.loads(line) for line in translated(path).read_text().splitlines()]
    assert [record["translation"] for record in records] == [line.upper() for line in LINES]
    assert [record["id"] for record in records] == list(range(7))
    with pytest.raises(DataError, match=r"source.jsonl:7: no text in 'text'; name the field with --column"):
        translated(path, "text")
    path.write_text("{\n")
    with pytest.raises(DataError, match=r"source.jsonl:1: not JSON"):
        translated(path)


def test_parquet(tmp_path) -> None:
    path = tmp_path / "source.parquet"
    table = pyarrow.table({"id": list(range(7)), "source": LINES})
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    found = pyarrow.parquet.read_table(translated(path)).to_pydict()
    assert found == {"id": list(range(7)), "source": LINES, "translation": [line.upper() for line in LINES]}
    with pytest.raises(DataError, match="no column 'text'; it has id, source"):
        translated(path, "text")
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"source.parquet: cannot be read"):
        find_blocks(str(path))


def test_a_compressed_file(tmp_path) -> None:
    with pytest.raises(DataError, match="is compressed, so it has no blocks; decompress it"):
        find_blocks(str(tmp_path / "source.txt.gz"))


def test_blocks_that_exist_are_skipped(tmp_path) -> None:
    path, output = tmp_path / "source.txt", tmp_path / "block"
    path.write_text("a\n")
    output.write_text("b\n")
    translate_to_files([BlockTask(block, str(output)) for block in find_blocks(str(path))], upper, column="source")
    assert output.read_text() == "b\n"
