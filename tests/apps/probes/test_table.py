"""Searches in tables of probabilities: the tree of the lecture, a literal beam search, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import weft
from weft.apps.probes.table import END, TABLES, ProbabilityTable, read_table
from weft.errors import WeftError
from weft.search.trace import BeamTrace, PathTrace

LECTURE = [
    {"he": -0.7, "I": -0.9},
    {"was": -1.6, "hit": -1.7, "got": -1.8, "struck": -2.9},
    {"me": -2.5, "a": -2.8, "hit": -2.9, "struck": -3.8},
    {"with": -3.3, "pie": -3.4, "on": -3.5, "tart": -4.0},
]
"""log p of every extension in the first four steps, as the lecture shows them."""


def literal_beam(table: ProbabilityTable, size: int) -> list[list[str]]:
    """The prefixes in the beam after every step: extend all, sort, keep k. Endings are set aside."""
    beam, steps = [(0.0, ())], []
    while beam:
        extended = [
            (total + log_probability, (*prefix, token))
            for total, prefix in beam
            for token, log_probability in table.rows.get(prefix, {END: 0.0}).items()
        ]
        beam = sorted(extended, reverse=True)[:size]
        beam = [item for item in beam if item[1][-1] != END]
        steps.append([" ".join(prefix) for _, prefix in beam])
    return steps


def kept_prefixes(trace: BeamTrace, tokens: list[str]) -> list[list[str]]:
    steps, slots = [], {0: ""}
    for branches in trace.steps:
        kept = [branch for branch in branches if branch.outcome == "kept"]
        slots = {branch.slot: f"{slots[branch.parent]} {tokens[branch.token]}".strip() for branch in kept}
        steps.append([slots[branch.slot] for branch in kept])
    return steps


def test_the_tree_of_the_lecture() -> None:
    result = weft.probes.trace_table("pie")
    assert result.text == "he hit me with a pie" and result.log_probability == pytest.approx(-4.3, abs=0.05)
    assert isinstance(result.trace, BeamTrace)
    for branches, expected in zip(result.trace.steps, LECTURE, strict=False):
        totals = {result.label(branch.token): branch.total for branch in branches}
        assert totals == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_against_a_literal_beam(size: int) -> None:
    result = weft.probes.trace_table("pie", size=size, finish=size)
    assert isinstance(result.trace, BeamTrace)
    assert kept_prefixes(result.trace, result.tokens) == literal_beam(read_table("pie"), size)


def test_greedy_search_and_the_tokens_that_are_not_shown() -> None:
    result = weft.probes.trace_table("pie", kind="greedy")
    assert isinstance(result.trace, PathTrace) and result.text == "he hit me with a pie"
    draw = result.trace.steps[0]
    shown = dict(zip(map(result.label, draw.tokens), draw.probabilities, strict=True))
    assert shown["(others)"] == pytest.approx(1 - math.exp(-0.7) - math.exp(-0.9), abs=1e-5)


def test_an_end_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text('[next]\n"" = { a = -0.5, "</s>" = -1.0 }\n"a" = { "</s>" = 0 }\n', "utf-8")
    result = weft.probes.trace_table(path, size=2, normalization="none")
    assert (result.source, result.text) == ("toy", "a") and result.log_probability == pytest.approx(-0.5)


@pytest.mark.parametrize("path", TABLES.shipped(), ids=lambda path: path.stem)
def test_shipped_tables(path: Path) -> None:
    assert weft.probes.trace_table(path.stem).text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[next", "not valid TOML"),
        ("size = 2", "size: unknown; choose one of title, search, next"),
        ('[next]\n"he" = { hit = -1 }', "expected a section [next] with a row for the empty prefix"),
        ("title = 3\n[next]", "expected a text as title and a section [search]"),
        ('[next]\n"" = {}', 'next."": expected tokens with their log p'),
        ('[next]\n"" = { a = 0.5 }', 'next."": a = 0.5; expected log p, a number of at most 0'),
        ('[next]\n"" = { a = nan }', "a = nan; expected log p"),
        ('[next]\n"" = { a = true }', "a = True; expected log p"),
        ('[next]\n"" = { "a b" = -1 }', "'a b': a token is a word without spaces, or </s>"),
        ('[next]\n"" = { a = -0.1, b = -0.1 }', 'next."": the probabilities sum to 1.81; expected at most 1'),
        ('[search]\nsizes = 2\n[next]\n"" = { a = -1 }', "search.sizes: unknown setting"),
        ('[search]\nkind = "exact"\n[next]\n"" = { a = -1 }', "search.kind: 'exact' has no trace"),
    ],
)
def test_errors(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(WeftError) as error:
        weft.probes.trace_table(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        WeftError, match="tart: no such table; expected a TOML file or a shipped table: choose one of pie"
    ):
        weft.probes.trace_table("tart")
    with pytest.raises(WeftError, match="cannot be read"):
        weft.probes.trace_table(tmp_path / "no.toml")
