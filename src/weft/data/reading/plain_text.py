"""Blocks of plain text: tab-separated pairs, lines that belong to those of another file, lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import blocks
from weft.data.reading.blocks import LineSplitter, Piece, RecordError, decoded
from weft.data.reading.links import counted, linked


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Lines ``source TAB target`` or ``source TAB target TAB links``."""

    name: str
    piece: Piece

    def rows(self) -> Iterator[Row]:
        new = tuple.__new__  # a third of the time that Pair(…) takes, and this is where the time goes
        for number, line in enumerate(decoded(self.piece, self.name), self.piece.first):
            if not isinstance(line, str):
                yield number, line
                continue
            columns = line.split("\t")
            if len(columns) == 2:
                yield number, new(Pair, (columns[0], columns[1], None))
                continue
            try:
                if len(columns) != 3:
                    raise RecordError("columns", f"{counted(len(columns), 'column')}, expected 2 (source, tab, target)")
                pair = linked(columns[0], columns[1], columns[2], "the third column")
            except RecordError as unfit:
                yield number, unfit.at(self.name, number)
            else:
                yield number, pair


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines for a language model: the target is the last tab-separated column, the source is empty."""

    name: str
    piece: Piece

    def rows(self) -> Iterator[Row]:
        for number, line in enumerate(decoded(self.piece, self.name), self.piece.first):
            yield number, Pair("", line.rsplit("\t", 1)[-1]) if isinstance(line, str) else line


@dataclass(frozen=True, slots=True)
class ParallelBlock:
    """As many lines of one file as of the other, from the same number on."""

    name: str
    target_name: str
    source: Piece
    target: Piece

    def rows(self) -> Iterator[Row]:
        sources, targets = decoded(self.source, self.name), decoded(self.target, self.target_name)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), self.source.first):
            if not isinstance(source, str):
                yield number, source
            elif not isinstance(target, str):
                yield number, target
            else:
                yield number, Pair(source, target)


@dataclass(frozen=True, slots=True)
class SurplusBlock:
    """Lines of the longer of two files, which go with none of the other."""

    name: str
    first: int
    count: int
    message: str

    def rows(self) -> Iterator[Row]:
        for number in range(self.first, self.first + self.count):
            yield number, RowError("unpaired", f"{self.name}:{number}: {self.message}")


def parallel_blocks(source: Path | str, target: Path | str) -> Iterator[ParallelBlock | SurplusBlock]:
    """Two files line by line; what is too much in one of them comes last."""
    with LineSplitter(source) as sources, LineSplitter(target) as targets:
        while sources.fill() & targets.fill():
            count = min(sources.lines, targets.lines, blocks.MOST)
            yield ParallelBlock(sources.name, targets.name, sources.take(count), targets.take(count))
        first = sources.number
        counts = sources.count_all(), targets.count_all()
        if counts[0] == counts[1]:
            return
        held = [f"{cutter.name} has {counted(cutter.number - 1, 'line')}" for cutter in (sources, targets)]
        message = f"has no counterpart; {held[0]}, {held[1]}; line by line they must belong together"
        longer = sources.name if counts[0] > counts[1] else targets.name
        for start in range(first, max(counts) + 1, blocks.MOST):
            yield SurplusBlock(longer, start, min(blocks.MOST, max(counts) + 1 - start), message)
