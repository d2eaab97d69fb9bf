"""``weft data clean``: what it prints, the files it writes, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest

from weft.data.reading.pair_files import read_pairs


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"s{number % 7} s{number % 5}\tt{number % 7} t{number % 5}\n" for number in range(35)]
    (tmp_path / "pairs.tsv").write_text("".join([*lines, "x <b> y\tx <b> y\n", "s1\t\n"]), "utf-8")
    return tmp_path


def test_what_it_prints(command) -> None:
    shown = command("data", "clean", "pairs.tsv").stdout
    first, second, *_ = shown.splitlines()
    assert re.fullmatch(r"37 pairs; \d+ more like damaged ones than like the others \(suspicion 0 or more\)", first)
    assert second == "the 2 most suspicious:" and "\nblank: 1\n" in shown
    assert "none of that suspicion" in command("data", "clean", "pairs.tsv", "--threshold", "1e12").stdout
    assert "\ncopied: 1\n  pair 36, suspicion " in shown and "    x <b> y\n    x <b> y" in shown
    records = [json.loads(line) for line in command("data", "clean", "pairs.tsv", "--json").stdout.splitlines()]
    assert len(records) == 37 and records[0]["kind"] == "blank" and records[1]["number"] == 36
    assert set(records[0]) == {"number", "suspicion", "kind", "reason", "source", "target"}


def test_the_files(command, folder) -> None:
    said = command("data", "clean", "pairs.tsv", "--drop", "6%", "--out", "clean.tsv", "--page", "page.html")
    assert "clean.tsv: 35 pairs; clean.tsv.dropped.tsv: 2 left out" in said.stderr
    kept = list(read_pairs(folder / "clean.tsv"))
    assert len(kept) == 35 and all(pair.target and pair.source != pair.target for pair in kept)
    header, *dropped = (folder / "clean.tsv.dropped.tsv").read_text("utf-8").splitlines()
    assert header.split("\t") == ["number", "suspicion", "kind", "reason", "source", "target"]
    assert [line.split("\t")[0] for line in dropped] == ["37", "36"]
    page = (folder / "page.html").read_text("utf-8")
    assert "copied: 1" in page and "x &lt;b&gt; y" in page


def test_two_files_and_a_threshold(command, folder) -> None:
    pairs = list(read_pairs(folder / "pairs.tsv"))
    (folder / "a.txt").write_text("".join(pair.source + "\n" for pair in pairs), "utf-8")
    (folder / "b.txt").write_text("".join(pair.target + "\n" for pair in pairs), "utf-8")
    command("data", "clean", "a.txt", "b.txt", "--threshold", 30, "--out", "clean.tsv")
    assert list(read_pairs(folder / "clean.tsv")) == pairs[:35]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drop", "5%", "--threshold", "1"], "--drop and --threshold: two limits; choose one of them"),
        (["--out", "x.tsv"], "--out: needs --drop SHARE or --threshold X"),
        (["--drop", "many"], "--drop many: expected a share of the pairs, such as 5% or 0.05"),
        (["--drop", "100%"], "--drop 100%: expected a share of the pairs, such as 5% or 0.05"),
        (["--drop", "5%", "--out", "pairs.tsv"], "pairs.tsv: already exists; remove it, or choose another file"),
        (["--page", "pairs.tsv"], "pairs.tsv: already exists; remove it, or choose another file"),
        (["--page", "no/page.html"], "no/page.html: cannot write: there is no folder no"),
    ],
)
def test_what_is_refused(refusal, folder, arguments: list[str], message: str) -> None:
    before = (folder / "pairs.tsv").read_bytes()
    assert refusal("data", "clean", "pairs.tsv", *arguments) == message
    assert (folder / "pairs.tsv").read_bytes() == before and len(list(folder.iterdir())) == 1


def test_files_without_pairs(refusal, folder) -> None:
    (folder / "empty.tsv").write_text("", "utf-8")
    assert refusal("data", "clean", "empty.tsv") == "empty.tsv: no pairs"
    assert refusal("data", "clean", "missing.tsv").startswith("missing.tsv: ")
