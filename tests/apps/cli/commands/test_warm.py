"""``weft warm``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.apps.bench import warm

Command = Callable[..., Any]
Runs = Callable[[str], Path]


def test_a_run(command: Command, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(warm.BATCHES, "cpu", (1, 5))
    run = runs("lstm")
    assert command("warm", run, "--device", "cpu", "--set", "search.size=2").stdout == (
        f"warm for {run} on cpu: 0 updates and 2 searches\n"
    )


def test_a_recipe(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(warm.BATCHES, "cpu", (1,))
    monkeypatch.setattr(warm, "UPDATES", 2)
    monkeypatch.chdir(tmp_path)
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text("a b\tb a\nc d\td c\n" * 20, "utf-8")
    (tmp_path / "small.toml").write_text(
        """
[data]
train = "train.tsv"
valid = "valid.tsv"

[tokenizer]
kind = "word"

[model]
embedding = 8
encoder = { kind = "lstm", hidden = 8 }
decoder = { kind = "lstm", hidden = 8 }

[training]
batch_tokens = 64
""",
        "utf-8",
    )
    assert (
        command("warm", "small.toml", "--device", "cpu").stdout
        == "warm for small.toml on cpu: 2 updates and 1 search\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml", "train.tsv", "valid.tsv"]


def test_refusals(refusal: Callable[..., str], runs: Runs) -> None:
    assert "nothing-of-that-name" in refusal("warm", "nothing-of-that-name")
    assert "only search settings" in refusal("warm", runs("lstm"), "--set", "training.steps=3")
