"""``weft probe``: tables and charts, pictures, JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.translation.translator import Translator

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]


class TestRepeat:
    def test_in_the_terminal(self, command: Command, runs: Runs) -> None:
        text, _ = command("probe", "repeat", runs("language"), "a b", "--times", "8")
        assert "mean log p" in text and "“a b”: from copy 1 to copy 8" in text and "copy of the phrase" in text

    def test_data_and_picture(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "repeat.svg"
        arguments = ("probe", "repeat", runs("lstm"), "a b", "--source", "c", "--times", "4", "--to", path)
        data = json.loads(command(*arguments, "--json")[0])
        assert len(data["token_scores"]) == len(data["tokens"]) == 8 and path.exists()
        assert command(*arguments)[0] == f"{path}\n"

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("lstm", ["a"], "source: none was given; this model translates"),
            ("language", [""], "PHRASE is empty"),
            ("language", ["a", "--to", "a.gif"], "cannot draw a picture of type 'gif'"),
        ],
    )
    def test_errors(self, refusal: Refusal, runs: Runs, name: str, options: list[str], message: str) -> None:
        assert message in refusal("probe", "repeat", runs(name), *options)


class TestNonsense:
    def test_in_the_terminal(self, command: Command, runs: Runs) -> None:
        text, _ = command("probe", "nonsense", runs("lstm"), "--limit", "3")
        assert "AUROC" in text and "ag ag ag …" in text and "another script" in text

    def test_data_and_picture(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        lines, path = tmp_path / "lines.txt", tmp_path / "nonsense.svg"
        lines.write_text("a b\nb c d\n", "utf-8")
        options = ("--set", "search.kind=greedy", "--to", path, "--json")
        data = json.loads(command("probe", "nonsense", runs("lstm"), lines, *options)[0])
        assert data["sources"] == 2 and len(data["kinds"]) == 4 and path.exists()

    def test_errors(self, refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
        assert refusal("probe", "nonsense", runs("lstm"), tmp_path / "no.txt").endswith("no.txt: no such file")
        assert refusal("probe", "nonsense", runs("language")).startswith("a language model has no source")


class TestBias:
    TEMPLATES = 'templates = ["{profession} b"]\nfeminine = ["a"]\nmasculine = ["b", "c", "d", "e", "f", "g", "h"]\n'

    def test_the_outputs_are_counted(self, command: Command, copier: Translator, tmp_path: Path) -> None:
        path, picture = tmp_path / "toy.toml", tmp_path / "bias.svg"
        path.write_text(f'{self.TEMPLATES}[professions]\nfirst = "c"\nsecond = "d"\n', "utf-8")
        arguments = ("probe", "bias", copier.folder, "--templates", path, "--set", "search.kind=greedy")
        text, _ = command(*arguments)
        assert "feminine (%)" in text and "first" in text
        data = json.loads(command(*arguments, "--to", picture, "--json")[0])
        assert sum(data["total"].values()) == 2 and picture.exists()
        page = tmp_path / "bias.html"
        assert command(*arguments, "--to", page)[0] == f"{page}\n" and "feminine (%)" in page.read_text("utf-8")

    def test_errors(self, refusal: Refusal, runs: Runs) -> None:
        assert "did you mean 'turkish'?" in refusal("probe", "bias", runs("lstm"), "--templates", "turkis")
        assert "no.toml: cannot be read" in refusal("probe", "bias", runs("lstm"), "--templates", "no.toml")


class TestStates:
    def test_a_file_in_the_terminal_as_data_and_as_a_picture(
        self, command: Command, runs: Runs, tmp_path: Path
    ) -> None:
        lines, path = tmp_path / "first.tsv", tmp_path / "states.svg"
        lines.write_text("".join(f"{text}\t{text[0]}\t1\n" for text in ("a b c", "b c a", "b a", "a c") * 8), "utf-8")
        text, _ = command("probe", "states", runs("lstm"), lines)
        assert "first, layer 1" in text and "words since it was stated" in text and "Fitted to 16 texts" in text
        data = json.loads(command("probe", "states", runs("language"), lines, "--to", path, "--json")[0])
        assert [*data["properties"]] == ["first"] and data["texts"] == 32 and path.exists()

    def test_errors(self, refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
        assert refusal("probe", "states", runs("lstm"), tmp_path / "no.tsv").endswith("no.tsv: no such file")
        assert "its tokens spell 0 of 20 texts" in refusal("probe", "states", runs("lstm"), "--limit", "20")
