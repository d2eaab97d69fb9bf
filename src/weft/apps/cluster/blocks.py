"""Files as blocks, which are translated by any process in any order, and merged in the order of the file.

A block of a text file or of JSON lines is a range of bytes that ends with a line; of a Parquet file, a range of rows.
The output of a block is a separate file, which appears complete in one rename: if it exists, the block is done.
"""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from weft.data.reading.compression import compression_of
from weft.data.reading.lines import BadLine, decode_line
from weft.data.reading.text_files import MAX_LINE_BYTES, read_errors
from weft.errors import DataError
from weft.files import replacing, save_text

BLOCK_LINES = 4096
BLOCK_BYTES = 1 << 20
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
"""Formats by file suffix; all other files are lines of text."""
Source = str | BadLine


class SourceWindow(NamedTuple):
    """Sources that are searched together."""

    file: str
    first_line: int
    """The line number of the first source in the file."""
    sources: list[Source]


class WindowOutput(NamedTuple):
    """The output of a window."""

    texts: list[str]
    """One text per source, for a column."""
    lines: str
    """The lines of a text file."""


Translate = Callable[[Iterable[SourceWindow]], Iterator[WindowOutput]]
"""The output of each window, in order; it may read windows ahead."""


class FileBlock(NamedTuple):
    """A range of lines or rows of a file."""

    file: str
    number: int
    start: int
    """The first byte, or the first row of a Parquet file."""
    end: int
    first_line: int
    """Its number in the file, counted from 1."""
    lines: int

    @property
    def format(self) -> str:
        return FORMATS.get(Path(self.file).suffix.lower(), "text")


class BlockTask(NamedTuple):
    """A block, and where its output goes."""

    block: FileBlock
    output: str


def find_blocks(file: str) -> list[FileBlock]:
    """The blocks of a file."""
    if compression_of(file):
        raise DataError(f"{file}: is compressed, so it has no blocks; decompress it, or translate it with --part")
    if FileBlock(file, 0, 0, 0, 0, 0).format == "parquet":
        return _parquet_blocks(file)
    blocks: list[FileBlock] = []
    start = end = lines = total = 0
    with read_errors(file, lambda: total), Path(file).open("rb") as opened:
        while raw := opened.readline(MAX_LINE_BYTES + 1):
            end += len(raw)
            lines += raw.endswith(b"\n") or len(raw) <= MAX_LINE_BYTES
            if lines >= BLOCK_LINES or (end - start >= BLOCK_BYTES and raw.endswith(b"\n")):
                blocks.append(FileBlock(file, len(blocks), start, end, total + 1, lines))
                start, total, lines = end, total + lines, 0
    if lines:
        blocks.append(FileBlock(file, len(blocks), start, end, total + 1, lines))
    return blocks


def _parquet_blocks(file: str) -> list[FileBlock]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_metadata(file).num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None
    starts = range(0, rows, BLOCK_LINES)
    ends = [min(start + BLOCK_LINES, rows) for start in starts]
    return [
        FileBlock(file, number, start, end, start + 1, end - start)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def translate_to_files(work: Iterable[BlockTask], translate: Translate, *, column: str) -> None:
    """Translate blocks into files, each as soon as it is done; those that exist are skipped."""
    opened: deque[tuple[Path, Save]] = deque()

    def windows() -> Iterator[SourceWindow]:
        for block, output in work:
            if not Path(output).exists():
                sources, save = _open(block, column)
                opened.append((Path(output), save))
                yield SourceWindow(block.file, block.first_line, sources)

    for output in translate(windows()):
        path, save = opened.popleft()
        save(path, output)


Save = Callable[[Path, WindowOutput], None]
"""Write the output of a block."""


def _open(block: FileBlock, column: str) -> tuple[list[Source], Save]:
    """The sources of a block, and the function that writes their output."""
    if block.format == "parquet":
        table = _read_rows(block)
        if column not in table.column_names:
            raise DataError(f"{block.file}: no column {column!r}; it has {', '.join(table.column_names)}")
        values = table.column(column).to_pylist()
        sources: list[Source] = [value if isinstance(value, str) else "" for value in values]
        return sources, lambda path, output: _write_rows(path, table, output.texts)
    lines = list(_read_block(block))
    if block.format == "text":
        return lines, lambda path, output: save_text(path, output.lines)
    numbered = enumerate(lines, block.first_line)
    records = [_record(line, column, f"{block.file}:{number}") for number, line in numbered]

    def save(path: Path, output: WindowOutput) -> None:
        added = [{**record, "translation": text} for record, text in zip(records, output.texts, strict=True)]
        save_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in added))

    return [record[column] for record in records], save


def _read_block(block: FileBlock) -> Iterator[Source]:
    with read_errors(block.file, lambda: block.first_line), Path(block.file).open("rb") as file:
        file.seek(block.start)
        content = file.read(block.end - block.start)
    for number, raw in enumerate(_split(content), block.first_line):
        yield decode_line(raw, block.file, number)


def _split(content: bytes) -> list[bytes]:
    """Lines, which end at LF alone: `bytes.splitlines` also ends them at CR."""
    return content.removesuffix(b"\n").split(b"\n")


def _record(line: Source, column: str, where: str) -> dict[str, Any]:
    if isinstance(line, BadLine):
        raise DataError(line.message)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get(column), str):
        raise DataError(f"{where}: no text in {column!r}; name the field with --column")
    return record


def _read_rows(block: FileBlock) -> Any:
    import pyarrow
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(block.file)
    first, parts = 0, []
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        start, end = max(block.start - first, 0), min(block.end - first, rows)
        if start < end:
            parts.append(file.read_row_group(group).slice(start, end - start))
        first += rows
    return pyarrow.concat_tables(parts)


def _write_rows(output: Path, table: Any, texts: Sequence[str]) -> None:
    import pyarrow
    import pyarrow.parquet

    if "translation" in table.column_names:
        table = table.drop_columns(["translation"])
    with replacing(output) as file:
        pyarrow.parquet.write_table(table.append_column("translation", pyarrow.array(texts, pyarrow.string())), file)


def merge_blocks(outputs: Sequence[Path], output: Path, *, parquet: bool) -> None:
    """Write the outputs of all blocks of a file in their order; it appears once it is complete."""
    with replacing(output) as file:
        if parquet:
            _merge_rows(outputs, file)
            return
        for part in outputs:
            with part.open("rb") as opened:
                shutil.copyfileobj(opened, file)


def _merge_rows(outputs: Sequence[Path], file: BinaryIO) -> None:
    import pyarrow.parquet

    writer = None
    for part in outputs:
        table = pyarrow.parquet.read_table(part)
        writer = writer or pyarrow.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
