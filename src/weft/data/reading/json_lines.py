"""JSON lines: an object in each line (of equal names the last wins) or, for dialogues, a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.reading.records import NumberedRecords, Records, type_name
from weft.data.reading.tables import Selection, Turns, check_named_columns
from weft.data.reading.text_files import Chunk, LineSplitter, RecordError, decode_lines
from weft.recipe.data import TableSettings

EXPECTED = "expected a JSON object ({…}) in each line"
BLANK_LINE = f"is a blank line, {EXPECTED}"


class JsonLines:
    """The format of a file with a JSON object in each line."""

    suffixes = (".jsonl", ".ndjson", ".json")

    def read(
        self, path: Path | str, columns: Selection | Turns, settings: TableSettings
    ) -> Iterator[tuple[Records, Selection]]:
        check_named_columns(path, "jsonl", columns, settings)
        selection = columns if isinstance(columns, Selection) else Selection(())
        with LineSplitter(path) as splitter:
            for chunk in splitter.chunks():
                yield JsonRecords(chunk, lists=columns == Turns(None)), selection


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """Lines that are each a JSON object or, where `lists` are allowed too, a list."""

    chunk: Chunk
    lists: bool = False

    def records(self, name: str) -> NumberedRecords:
        for number, line in enumerate(decode_lines(self.chunk, name), self.chunk.first_line):
            if not isinstance(line, str):
                yield number, line
                continue
            try:
                value = _parse(line)
                if not (isinstance(value, dict) or (self.lists and isinstance(value, list))):
                    converts = "; `jq -c '.[]'` converts it" if isinstance(value, list) and _are_objects(value) else ""
                    raise RecordError("json", f"is {type_name(value)}, {EXPECTED}{converts}")
            except RecordError as error:
                yield number, error.at(name, number)
            else:
                yield number, value


def _are_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
"""Numbers stay as they are written; NaN and Infinity, which are not JSON, are read as null."""


def _parse(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except json.JSONDecodeError as error:
        if not line.strip():
            raise RecordError("json", BLANK_LINE) from None
        if (start := line.strip()) == "{" or start.startswith("["):
            kind, converted = ("a list", ".[]") if start.startswith("[") else ("an object", ".")
            message = f"{kind} over several lines, {EXPECTED}; `jq -c '{converted}'` converts it"
            raise RecordError("json", message) from None
        raise RecordError("json", f"not valid JSON (column {error.pos + 1}: {error.msg})") from None
    except RecursionError:
        raise RecordError("json", "JSON that is nested too deeply") from None
