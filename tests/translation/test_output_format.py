"""Translations as lines of a file."""

from __future__ import annotations

import json
from dataclasses import replace

from weft.translation.output_format import OutputFormat
from weft.translation.results import empty_translation

FOUND = replace(empty_translation("x"), text="a\tb\nc\rd", score=1.0)


def test_what_would_end_a_line() -> None:
    assert OutputFormat().lines(FOUND) == "a b c d\n"
    assert OutputFormat(2, align=True).lines(replace(FOUND, alternatives=(FOUND,))) == "a b c d\t1.0000\t\n" * 2


def test_a_line_that_was_skipped_has_all_columns() -> None:
    assert [OutputFormat(n, align).skipped("x") for n in (1, 2) for align in (False, True)] == [
        *("\n", "\t\n", "\t\n", "\t\t\n")
    ]
    assert json.loads(OutputFormat(as_json=True).skipped("why")) == {"source": None, "text": "", "error": "why"}


def test_json() -> None:
    record = json.loads(OutputFormat(2, as_json=True).lines(replace(FOUND, alternatives=(FOUND,))))
    assert (record["text"], record["score"], record["attention"]) == (FOUND.text, 1.0, None)
    assert len(record["alternatives"]) == 1 and "alternatives" not in record["alternatives"][0]
    assert [OutputFormat(1, *needs).needs_attention for needs in ((False, False), (True, False), (False, True))] == [
        *(False, True, True)
    ]
