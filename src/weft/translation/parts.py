"""One file translated in parts by an array of jobs, and merged.

    Part 3 of 8       the third of eight sequences of consecutive lines, about equally many
    OUT.3-of-8        its output, written like any other (`weft.translation.resumable_output`)
    OUT.3-of-8.json   its record: which lines it has, of how many, made by what, and a checksum
    OUT               all of them in their order

Parts consist of whole blocks of lines, which a whole translation searches together: so the merged output is the same,
byte for byte, in however many parts it was made. If a file has too few blocks for parts of about equal size, it is
divided between any two lines; rounding may then decide differently between outputs that are equally good.

The record is written before the output gets its name, so that an output with a record is complete.
Merging checks that no part is missing, that all are of one source and were made with the same options, and that every
byte is as it was written.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from weft.errors import DataError, plural
from weft.files import read_json, replacing, save_text

MAX_PARTS = 100_000
MAX_IMBALANCE = 1.25
"""The most lines of a part, as a multiple of the mean."""
BLOCK_BYTES = 1 << 20


class FilePart(NamedTuple):
    """One of several parts, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> FilePart:
        """``3/8``."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        number, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= count <= MAX_PARTS:
            raise DataError(f"--part {text}: expected I/N with I from 1 to N, for example 1/8")
        return cls(number, count)

    def lines(self, *divisions: Sequence[int]) -> range:
        """The lines of the part, counted from 0.

        ``divisions``: the number of lines of each block of the source, for each size of blocks, the largest first. The
        first division into parts of about equal size is taken; if there is none, lines are.
        """
        total = sum(divisions[0])
        for blocks in divisions:
            starts = list(accumulate(blocks, initial=0))
            bounds = [starts[len(blocks) * part // self.of] for part in range(self.of + 1)]
            if max(end - start for start, end in pairwise(bounds)) * self.of <= MAX_IMBALANCE * total:
                return range(bounds[self.number - 1], bounds[self.number])
        return range(total * (self.number - 1) // self.of, total * self.number // self.of)

    def path(self, output: Path) -> Path:
        """The path of its output."""
        return output.with_name(f"{output.name}.{self.number}-of-{self.of}")


class PartRecord(NamedTuple):
    """The record of the output of a part."""

    number: int
    of: int
    first_line: int
    """Counted from 1."""
    lines: int
    total_lines: int
    """Lines of the source."""
    skipped: int
    bytes: int
    checksum: str
    """Checksum of the output."""
    made_by: dict[str, Any]
    """Options that must be the same in all parts."""

    def save(self, output: Path) -> None:
        """Write the record of an output."""
        text = json.dumps(self._asdict(), ensure_ascii=False, indent=1) + "\n"
        save_text(record_path(output), text)

    @classmethod
    def read(cls, path: Path) -> PartRecord:
        content = read_json(path, error=DataError)
        try:
            record = cls(**content)
            counts = [record.number, record.of, record.first_line, record.lines, record.total_lines]
            if not all(isinstance(value, int) and value >= 0 for value in [*counts, record.skipped, record.bytes]):
                raise TypeError
            dict(record.made_by)
        except (TypeError, ValueError):
            raise DataError(f"{path}: damaged: not the record of a part; run the part again") from None
        return record


def record_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def find_parts(output: Path) -> list[PartRecord]:
    """The records of all parts of an output, in order; an error says which are missing, or do not belong together."""
    expression = re.compile(re.escape(output.name) + r"\.([0-9]{1,6})-of-([0-9]{1,6})(\.json|\.part|)")
    folder = output.parent
    names = (
        [match for path in folder.iterdir() if (match := expression.fullmatch(path.name))] if folder.is_dir() else []
    )
    counts = sorted({int(match[2]) for match in names})
    if len(counts) != 1:
        divided = (
            f"; there are parts of {' and '.join(map(str, counts))}: remove those not to be merged" if counts else ""
        )
        hint = divided or f"; there are none: translate them with --part I/N --output {output}"
        raise DataError(f"{output}: expected all parts of one division to merge{hint}")
    [count] = counts
    files = {(int(match[1]), match[3]) for match in names}
    missing = [number for number in range(1, count + 1) if (number, "") not in files or (number, ".json") not in files]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        noun, verb, them = ("part", "is", "it") if len(missing) == 1 else ("parts", "are", "them")
        raise DataError(
            f"{output}: {noun} {shown} of {count} {verb} missing or unfinished; run {them} with --part and --resume"
        )
    records = [PartRecord.read(record_path(FilePart(number, count).path(output))) for number in range(1, count + 1)]
    _check(records, output)
    return records


def _check(records: Sequence[PartRecord], output: Path) -> None:
    """Fail if records are not those of one output."""
    first, next_line = records[0], 1
    for number, record in enumerate(records, 1):
        path = record_path(FilePart(number, len(records)).path(output))
        if record.total_lines != first.total_lines:
            raise DataError(
                f"{path}: its source had {plural(record.total_lines, 'line')}, that of part 1 had "
                f"{first.total_lines:,}; run the parts of one source again"
            )
        if (record.number, record.first_line) != (number, next_line):
            raise DataError(f"{path}: its first line is {record.first_line:,}, expected {next_line:,}; run it again")
        next_line += record.lines
        changed = _difference(first.made_by, record.made_by)
        if changed is not None:
            raise DataError(f"{path}: made with options other than those of part 1: {changed}; run the part again")
    if next_line - 1 != first.total_lines:
        raise DataError(f"{output}: its parts have {next_line - 1:,} of {first.total_lines:,} lines; run them again")


def _difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first option that differs."""
    for name in [*first, *(name for name in other if name not in first)]:
        if first.get(name) != other.get(name):
            return f"{name} is {other.get(name)!r}, in part 1 {first.get(name)!r}"
    return None


def merge_parts(output: Path) -> list[PartRecord]:
    """Write all parts in their order to the output, which appears once it is complete; the parts stay."""
    records = find_parts(output)
    with replacing(output) as file:
        for record in records:
            _append(FilePart(record.number, record.of).path(output), record, file)
    return records


def _append(path: Path, record: PartRecord, file: BinaryIO) -> None:
    value = size = 0
    with path.open("rb") as part:
        while block := part.read(BLOCK_BYTES):
            value, size = zlib.crc32(block, value), size + len(block)
            file.write(block)
    if (size, f"{value:08x}") != (record.bytes, record.checksum):
        raise DataError(f"{path}: damaged: not as it was written; remove it and run the part again")
