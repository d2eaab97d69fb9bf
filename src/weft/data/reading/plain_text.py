"""Blocks of plain text: tab-separated pairs, lines of two parallel files, single lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import blocks
from weft.data.reading.blocks import Chunk, LineSplitter, RecordError, decode_lines
from weft.data.reading.links import is_links, parse_links
from weft.data.reading.messages import quote
from weft.errors import plural


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Lines ``source TAB target`` or ``source TAB target TAB links``."""

    name: str
    chunk: Chunk

    def rows(self) -> Iterator[Row]:
        new = tuple.__new__  # takes a third of the time of Pair(…), which dominates this loop
        for number, line in enumerate(decode_lines(self.chunk, self.name), self.chunk.first_line):
            if not isinstance(line, str):
                yield number, line
                continue
            columns = line.split("\t")
            if len(columns) == 2:
                yield number, new(Pair, (columns[0], columns[1], None))
                continue
            try:
                if len(columns) != 3:
                    expected = f"{plural(len(columns), 'column')}, expected 2 (source, tab, target)"
                    raise RecordError("columns", expected + (_choose_columns(self.name) if len(columns) > 3 else ""))
                if not is_links(columns[2]):
                    reason = f"3 columns, but the third, {quote(columns[2])}, is not a list of links such as '0-0 1-2'"
                    raise RecordError("links", reason + _choose_columns(self.name))
                pair = parse_links(columns[0], columns[1], columns[2], "the third column")
            except RecordError as error:
                yield number, error.at(self.name, number)
            else:
                yield number, pair


def _choose_columns(name: str) -> str:
    """The end of the message for a file with columns that are not read: how to choose those that are."""
    corpus = f"{{file = {json.dumps(name)}, source = 1, target = 2}}"
    return f"; keep two (cut -f 1,2), or name them in a recipe: train = {corpus}"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines for a language model: the target is the last tab-separated column, the source is empty."""

    name: str
    chunk: Chunk

    def rows(self) -> Iterator[Row]:
        for number, line in enumerate(decode_lines(self.chunk, self.name), self.chunk.first_line):
            yield number, Pair("", line.rsplit("\t", 1)[-1]) if isinstance(line, str) else line


@dataclass(frozen=True, slots=True)
class ParallelBlock:
    """Parallel lines of a file of sources and a file of targets."""

    name: str
    target_name: str
    source: Chunk
    target: Chunk

    def rows(self) -> Iterator[Row]:
        sources, targets = decode_lines(self.source, self.name), decode_lines(self.target, self.target_name)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), self.source.first_line):
            if not isinstance(source, str):
                yield number, source
            elif not isinstance(target, str):
                yield number, target
            else:
                yield number, Pair(source, target)


@dataclass(frozen=True, slots=True)
class SurplusBlock:
    """Lines of the longer of two files, which have no counterpart."""

    name: str
    first_line: int
    count: int
    message: str

    def rows(self) -> Iterator[Row]:
        for number in range(self.first_line, self.first_line + self.count):
            yield number, RowError("unpaired", f"{self.name}:{number}: {self.message}")


def parallel_blocks(source: Path | str, target: Path | str) -> Iterator[ParallelBlock | SurplusBlock]:
    """Two files line by line; surplus lines of one of them come last."""
    with LineSplitter(source) as sources, LineSplitter(target) as targets:
        while sources.fill() & targets.fill():
            count = min(sources.buffered_lines, targets.buffered_lines, blocks.CHUNK_RECORDS)
            yield ParallelBlock(sources.name, targets.name, sources.take(count), targets.take(count))
        first = sources.next_line
        counts = sources.count_lines(), targets.count_lines()
        if counts[0] == counts[1]:
            return
        lengths = [
            f"{splitter.name} has {plural(count, 'line')}"
            for splitter, count in zip((sources, targets), counts, strict=True)
        ]
        message = f"has no counterpart; {lengths[0]}, {lengths[1]}; they must correspond line by line"
        longer = sources.name if counts[0] > counts[1] else targets.name
        for start in range(first, max(counts) + 1, blocks.CHUNK_RECORDS):
            yield SurplusBlock(longer, start, min(blocks.CHUNK_RECORDS, max(counts) + 1 - start), message)
