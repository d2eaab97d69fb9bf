"""Two runs exchange their models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.pairs.race.exchange import FILES, exchange, keep_weights


def make_run(folder: Path, content: str) -> Path:
    (folder / "training/best").mkdir(parents=True)
    (folder / "training/state").write_text(content)
    (folder / "tokenizer.json").write_text("shared")
    for name in FILES:
        (folder / name).write_text(f"{content} in {folder}")
    return folder


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_everything_that_differs_changes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    first, second = make_run(tmp_path / "run", "one"), make_run(tmp_path / "run/race/model-2", "two")
    if not links:
        monkeypatch.setattr(os, "link", _refuse)
    exchange(first, second)
    assert (first / "training/state").read_text() == "two" and (second / "training/state").read_text() == "one"
    for name in FILES:
        assert (first / name).read_text().startswith("two") and (second / name).read_text().startswith("one")
    assert (first / "README.md").read_text() == f"two in {first}", "a card names its own folder"
    assert (second / "README.md").read_text() == f"one in {second}"
    assert not [*tmp_path.rglob("*.part")] and not [*tmp_path.rglob(".*.part")]


def test_a_card_still_names_the_files_beside_its_folder(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "run", "one"), make_run(tmp_path / "run/race/distilled", "two")
    (second / "README.md").write_text(f"{second}.data/train.jsonl; `weft translate {second}`. It is {second}.")
    exchange(first, second)
    assert (first / "README.md").read_text() == f"{second}.data/train.jsonl; `weft translate {first}`. It is {first}."


def _refuse(*_: object) -> None:
    raise OSError("no links")


@pytest.mark.parametrize("renames", range(12))
def test_a_kill_leaves_a_model_and_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    """After any number of renames both folders have all files that a run is loaded from."""
    first, second = make_run(tmp_path / "run", "one"), make_run(tmp_path / "other", "two")
    left = iter([True] * renames)
    rename, replace = Path.rename, Path.replace

    def count() -> None:
        if not next(left, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", lambda path, to: count() or rename(path, to))
    monkeypatch.setattr(Path, "replace", lambda path, to: count() or replace(path, to))
    with pytest.raises(KeyboardInterrupt):
        exchange(first, second)
    for name in ("model.safetensors", "recipe.toml", "tokenizer.json"):
        assert (first / name).is_file()


def test_weights_are_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "one")
    keep_weights(run)
    assert not (run / "training").exists() and (run / "model.safetensors").is_file()
