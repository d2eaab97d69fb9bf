"""``weft score``: one line for each pair, whatever becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Runs = Callable[[str], Path]


def test_bad_pairs_are_skipped_in_their_place(command: Callable[..., Any], runs: Runs, tmp_path: Path) -> None:
    long = " ".join("a" * 50)
    (tmp_path / "good.tsv").write_text("a b\tb\nc\tc\n", "utf-8")
    (tmp_path / "pairs.tsv").write_bytes(b"a b\tb\nonly one\nc\t\xff\nc\tc\n" + f"{long}\ta\n".encode())
    good = command("score", runs("learned"), tmp_path / "good.tsv").stdout.splitlines()
    asked = ["score", runs("learned"), tmp_path / "pairs.tsv", "--bad-lines", "skip"]
    said = command(*asked, check=3)
    scores = [float(line or 0) for line in said.stdout.splitlines()]
    assert scores == pytest.approx([float(good[0]), 0, 0, float(good[1]), 0], abs=1e-4)
    assert [line == "" for line in said.stdout.splitlines()] == [False, True, True, False, True]
    assert said.stderr.splitlines()[-1] == "weft: 3 lines were skipped; each is an empty line in the output"
    records = [json.loads(line) for line in command(*asked, "--json", check=3).stdout.splitlines()]
    assert [line["source"] for line in records] == ["a b", None, None, "c", None]
    expected = [f"{tmp_path}/pairs.tsv:{number}: " for number in (2, 3, 5)]
    errors = [line["error"] for line in records if "error" in line]
    assert all(map(str.startswith, errors, expected)) and "51 tokens" in errors[2]


def test_or_are_an_error(refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\ta\nonly one\n", "utf-8")
    message = refusal("score", runs("lstm"), tmp_path / "pairs.tsv")
    assert message == (
        f"{tmp_path}/pairs.tsv:2: 1 column, expected 2 (source, tab, target); or skip such lines with --bad-lines skip"
    )
