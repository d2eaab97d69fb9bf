"""The options for terms and memories: reading, the arguments of searches, the counts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.apps.cli.terms_and_memory import TermCounts, TermsAndMemory
from weft.data.reading.translation_memory import MemoryMatch
from weft.errors import DataError
from weft.translation.results import empty_translation


def test_files_are_read_once_and_belong_to_the_identity(tmp_path) -> None:
    terms, pairs = tmp_path / "terms.tsv", tmp_path / "pairs.tsv"
    terms.write_text("a\tb\n", "utf-8")
    pairs.write_text("a b\tc\n", "utf-8")
    known = TermsAndMemory.read(terms, pairs, None)
    assert set(known.options) == {"glossary", "translation_memory"} and set(known.identity) == {
        "--glossary",
        "--memory",
    }
    nothing = TermsAndMemory.read(None, None, None)
    assert nothing.options == {} == nothing.identity
    pairs.write_text("a b\td\n", "utf-8")
    assert TermsAndMemory.read(None, pairs, None).identity["--memory"] != known.identity["--memory"]


def test_what_is_refused(tmp_path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n", "utf-8")
    for option, files in (("--glossary", (path, None)), ("--memory", (None, path))):
        with pytest.raises(DataError, match=f"{option}: cannot be used with --ray"):
            TermsAndMemory.read(*files, ray="local")
    known = TermsAndMemory.read(None, path, None)
    with pytest.raises(DataError, match="--memory: its sources have one column, those of this run 2"):
        known.check(cast(Any, SimpleNamespace(source_columns=2)))
    known.check(cast(Any, SimpleNamespace(source_columns=1)))


def test_counts(tmp_path, capsys) -> None:
    terms, pairs = tmp_path / "terms.tsv", tmp_path / "pairs.tsv"
    terms.write_text("a\tb\n", "utf-8")
    pairs.write_text("a b\tc\nx\ty\n", "utf-8")
    counts = TermCounts(TermsAndMemory.read(terms, pairs, None))
    output = replace(empty_translation("a"), text="b")
    similar, equal = (MemoryMatch("x", "y", value, value == 1.0) for value in (0.5, 1.0))
    outputs = [
        replace(output, terms=(("b",),), memory=(similar,)),
        replace(output, terms=(("c",),)),
        replace(output, memory=(equal,)),
    ]
    counts.add(outputs)
    counts.report()
    first, second = capsys.readouterr().err.splitlines()
    assert first == "weft: glossary of 1 term: 2 of 3 outputs have terms, 1 of these lacks one"
    assert second == "weft: memory of 2 sources: 1 of 3 outputs are from it, 1 have similar pairs"
