"""``weft probe``: tables and charts, pictures, JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
