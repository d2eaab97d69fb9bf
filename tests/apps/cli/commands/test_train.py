"""``weft train --from RUN``."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
COPYING = ("data.train=copy", "data.train_size=60", "data.valid_size=9", "data.options={length=4, symbols=9}")
QUICKLY = ("training.steps=3", "training.batch_tokens=64", "training.validate_every=1", "training.device=cpu")


def changes(*more: str) -> list[str]:
    return [part for change in (*COPYING, *QUICKLY, *more) for part in ("--set", change)]


def test_a_recipe_goes_on_from_a_run(command: Command, runs: Runs, tmp_path: Path) -> None:
    """With the model and the tokenizer of the run, on the data of the recipe."""
    from weft.translation.load import load

    out = tmp_path / "run"
    text, noise = command("train", "addition", "--from", runs("lstm"), *changes(), "--out", out)
    assert text == f"{out}\n" and "finished at step 3" in noise
    old, new = load(runs("lstm")), load(out)
    assert new.recipe.model == old.recipe.model and new.tokenizers.source.size == old.tokenizers.source.size
    assert new.recipe.name == "addition" and new.recipe.training.start == str(runs("lstm").resolve())


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_the_first_validation_is_that_of_the_run(command: Command, runs: Runs, tmp_path: Path, name: str) -> None:
    found = json.loads(command("evaluate", runs(name), "--split", "valid", "--json")[0])
    size, options = "data.valid_size=13", "data.options={length=5, symbols=7}"
    still = changes("training.learning_rate=1e-12", size, options, "training.steps=1")
    command("train", "addition", "--from", runs(name), *still, "--out", tmp_path / "run")
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    [loss] = [line["perplexity"] for line in log if line["event"] == "validation"]
    assert loss == pytest.approx(found["metrics"]["perplexity"]["value"], rel=1e-4)


def test_new_symbols(command: Command, runs: Runs, tmp_path: Path) -> None:
    from weft.translation.load import load

    extending = changes("tokenizer.extend=true")
    command("train", "addition", "--from", runs("lstm"), *extending, "--out", tmp_path / "run")
    assert load(tmp_path / "run").tokenizers.source.size == load(runs("lstm")).tokenizers.source.size + 2


@pytest.mark.parametrize("again", [True, False], ids=["the same command", "the recipe alone"])
def test_resumed_when_the_run_is_gone(command: Command, runs: Runs, tmp_path: Path, again: bool) -> None:
    start, out = tmp_path / "first", tmp_path / "run"
    shutil.copytree(runs("lstm"), start)
    asked = ["--from", start, *changes("tokenizer.extend=true")]
    command("train", "addition", *asked, "--out", out)
    shutil.rmtree(start)
    more = ["--set", "training.steps=5", "--out", out, "--resume"]
    assert "finished at step 5" in command("train", "addition", *(asked if again else []), *more)[1]


def test_resumed_under_another_name(command: Command, refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command("train", "addition", "--from", runs("lstm"), *changes("name=mine"), "--out", out)
    more = ["--set", "training.steps=4", "--out", out, "--resume"]
    assert "finished at step 4" in command("train", "addition", "--set", "name=mine", *more)[1]
    message = refusal("train", "addition", *more)
    assert message == f"--resume: {out} was trained from recipe 'mine', not 'addition'"


class TestRefused:
    def test_another_model(self, refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
        other = changes("model.encoder.hidden=20", "model.decoder.hidden=20")
        message = refusal("train", "addition", "--from", runs("lstm"), *other, "--out", tmp_path / "run")
        assert message.startswith(f"--from {runs('lstm').resolve()}: another model: tensor ")
        assert not (tmp_path / "run").exists()

    def test_no_such_run(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        message = refusal("train", "addition", "--from", tmp_path / "none", "--out", tmp_path / "run")
        assert message.startswith(f"{tmp_path / 'none'}: no such run folder; ") and not (tmp_path / "run").exists()

    def test_extending_what_is_not_there(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        message = refusal("train", "addition", *changes("tokenizer.extend=true"), "--out", tmp_path / "run")
        assert message == "tokenizer.extend: there is no tokenizer to extend; start from a run (--from RUN)"


class TestResume:
    def test_a_run_folder_is_all_it_takes(self, command: Command, tmp_path: Path) -> None:
        out = tmp_path / "run"
        command("train", "addition", *changes(), "--out", out)
        assert "finished at step 5" in command("train", out, "--resume", "--set", "training.steps=5")[1]
        assert "training.steps = 5" in command("recipes", "show", out / "recipe.toml")[0], (
            "it is kept for the next time"
        )
        assert command("train", out, "--resume")[0] == f"{out}\n"

    def test_the_command_on_the_card(self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from weft.recipe import load_recipe
        from weft.training.train import train

        monkeypatch.chdir(tmp_path)
        next(train(load_recipe("addition", [change for change in changes() if change != "--set"]), "my runs/x"))
        card = Path("my runs/x/README.md").read_text("utf-8")
        [line] = [line for line in card.splitlines() if line.startswith("- state: ")]
        pasted = shlex.split(line.split("`")[1])
        assert pasted[0] == "weft" and "finished at step 3" in command(*pasted[1:])[1]

    def test_what_is_no_run(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        assert refusal("train", tmp_path / "none", "--resume").startswith(f"{tmp_path / 'none'}: no such run folder; ")
        assert refusal("train", tmp_path, "--resume") == f"{tmp_path}: not a run folder (it has no recipe.toml)"

    def test_a_run_is_no_recipe(self, refusal: Callable[..., str], runs: Runs) -> None:
        assert refusal("train", runs("lstm")) == (
            f"{runs('lstm')}: is a run folder, not a recipe; continue with: weft train {runs('lstm')} --resume"
        )

    def test_an_empty_folder_can_be_used(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        assert command("train", "addition", *changes(), "--out", tmp_path / "run")[0] == f"{tmp_path / 'run'}\n"


def test_the_languages_of_a_run() -> None:
    from weft.apps.cli.commands.train import language_changes

    assert language_changes(None) == []
    assert language_changes("en-fr") == ["serve.source=en", "serve.target=fr"]
    assert language_changes("zh-Hans:en") == ["serve.source=zh-Hans", "serve.target=en"]


@pytest.mark.parametrize("given", ["en", "en-", "a-b-c"])
def test_languages_that_are_no_pair(refusal: Callable[..., str], given: str) -> None:
    expected = f"--languages {given}: expected SOURCE-TARGET, for example en-fr, or en-US:fr-FR"
    assert expected in refusal("train", "grammar", "--languages", given)
