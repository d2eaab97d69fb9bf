"""``weft parse``: trees in the terminal, as pictures and as JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]
TREE = "(S (NP he) (VP sleeps))"


def test_a_given_tree(command: Command, tmp_path: Path) -> None:
    assert command("parse", "--tree", TREE)[0].splitlines() == ["S", "├─ NP he", "└─ VP sleeps"]
    record = json.loads(command("parse", "--tree", TREE, "--json")[0])
    assert record["tree"]["children"][1] == {"label": "VP", "children": ["sleeps"]} and record["text"] == TREE
    path = tmp_path / "tree.svg"
    assert command("parse", "--tree", TREE, "--to", path)[0] == f"{path}\n" and "sleeps" in path.read_text("utf-8")


def test_the_output_of_a_run(command: Command, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(translate=lambda text, **settings: SimpleNamespace(text=f"(S {text} {settings['size']})"))
    monkeypatch.setattr("weft.apps.cli.commands.parse.load_runs", lambda *paths, **options: model)
    arguments = ("parse", runs("lstm"), "he sleeps", "--set", "search.size=3")
    assert command(*arguments)[0] == "S he sleeps 3\n"


def test_errors(refusal: Refusal, runs: Runs) -> None:
    assert "not a tree: " in refusal("parse", runs("lstm"), "a b")
    assert (
        refusal("parse", "--tree", "(S")
        == "not a tree: '(S'; expected brackets with labels, such as (S (NP he) (VP sleeps))"
    )
    assert refusal("parse", runs("lstm"), "--tree", TREE).startswith("--tree: the tree is given")
    assert refusal("parse").startswith("RUN and TEXT: missing") and refusal("parse", "runs/x").startswith(
        "TEXT: missing"
    )
    assert "no/run" in refusal("parse", "no/run", "a")
    assert "cannot draw a picture of type 'gif'" in refusal("parse", "--tree", TREE, "--to", "tree.gif")
