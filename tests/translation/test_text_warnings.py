"""Warnings about source lines with tabs, and of unknown tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.text.specials import UNKNOWN
from weft.translation import text_warnings
from weft.translation.text_warnings import warn_of_sources

KNOWN = {"a": 5, "b": 6, "c": 7}


def _model(*, columns: int = 1, copy: bool = False, arrays: bool = False) -> Any:
    def encode_sources(lines: list[str]) -> list[list[int]]:
        return [[KNOWN.get(word, UNKNOWN) for word in line.split()] for line in lines]

    recipe = SimpleNamespace(model=SimpleNamespace(copies=copy))
    tokenizers = SimpleNamespace(reads_arrays=arrays)
    return SimpleNamespace(source_columns=columns, recipe=recipe, encode_sources=encode_sources, tokenizers=tokenizers)


@pytest.fixture
def warnings_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    said: list[str] = []
    monkeypatch.setattr(text_warnings, "warn", said.append)

    def warnings_of(lines: list[str], file: str = "-", **model: Any) -> list[str]:
        said.clear()
        warn_of_sources(_model(**model), Path("runs/x"), file, lines)
        return [*said]

    return warnings_of


def test_nothing_is_said_of_names_of_pictures(warnings_of: Callable[..., list[str]]) -> None:
    """A black pixel is the byte 0, as the unknown token is the id 0: drawings in black were read word by word."""
    assert warnings_of(["pictures/black.png", "x\ty"], arrays=True) == []
    assert warnings_of(["pictures/black.png"]) != []


def test_nothing_is_said_of_known_lines(warnings_of: Callable[..., list[str]]) -> None:
    assert warnings_of([]) == warnings_of(["", " "]) == warnings_of(["a b", "", "c"]) == []
    assert warnings_of(["a b c a b"] * 4 + ["x"]) == [], "1 of 21 tokens"
    assert warnings_of(["a b"] * 100 + ["x y\tz"] * 9) == [], "only the first lines are looked at"


def test_lines_with_tabs(warnings_of: Callable[..., list[str]]) -> None:
    assert warnings_of(["a\tb", "b\tc"], "pairs.tsv") == [
        "pairs.tsv: the lines have tabs and are translated as a whole; to translate the first column: "
        "cut -f 1 pairs.tsv | weft translate runs/x"
    ]
    assert warnings_of(["a\tb"])[0].endswith(": cut -f 1 | weft translate runs/x")
    assert warnings_of(["a\tb", "b\tc"], columns=2) == [], "the columns are those of the model"
    assert warnings_of(["a\tb", "a", "b"]) == []


def test_unknown_tokens(warnings_of: Callable[..., list[str]]) -> None:
    lines = ["A b C", "a", "b A x y z"]
    end = "; text must have the language, case and punctuation of the training data"
    assert warnings_of(lines) == [
        f"67% of the tokens of the first 3 lines are unknown to the model ('A', 'C', 'x'){end}"
    ]
    assert warnings_of(["A a b c"]) == [f"25% of the tokens of the line are unknown to the model ('A'){end}"]
    assert warnings_of(lines, copy=True) == [], "unknown tokens are copied"
