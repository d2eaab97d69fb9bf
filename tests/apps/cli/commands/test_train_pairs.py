"""``weft train`` on pairs in place of a recipe."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from fixtures.small_corpora import weights_of
from weft.apps.cli.commands import train
from weft.pairs.request import TrainingRequest
from weft.pairs.source import find_pairs
from weft.pairs.train import annotated, with_batch
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.training.events import Fitted, Started

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]
ROWS = [(f"w{'aeiou'[n % 5]}{'bdfgk'[n // 5 % 5]}{'lmnrs'[n // 25]}", f"{n % 5} {n // 5}") for n in range(60)]
SMALL = (
    *("model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "training.steps=3"),
    *("training.validate_every=2", "training.batch_tokens=64", "training.device=cpu", "search.size=1"),
)
QUICKLY = [part for change in SMALL for part in ("--set", change)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the same pairs in several forms."""
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{source}\t{target}\n" for source, target in ROWS)
    (tmp_path / "pairs.tsv").write_text(lines)
    with gzip.open(tmp_path / "packed.tsv.gz", "wt") as file:
        file.write(lines)
    (tmp_path / "pairs.csv").write_text("word,phones\n" + lines.replace("\t", ","))
    rows = [json.dumps({"id": n, "b": target, "a": source}) + "\n" for n, (source, target) in enumerate(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    (tmp_path / "a.de").write_text("".join(source + "\n" for source, _ in ROWS))
    (tmp_path / "a.en").write_text("".join(target + "\n" for _, target in ROWS))
    (tmp_path / "parts").mkdir()
    for part, beginning, end in (("train", 0, 40), ("valid", 40, 50), ("test", 50, 60)):
        chosen = ROWS[beginning:end]
        (tmp_path / "parts" / f"{part}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in chosen))
    return tmp_path


def test_the_recipe_of_the_run_trains_the_same_model(command: Command) -> None:
    _, said = command("train", "pairs.tsv", *QUICKLY)
    text = Path("runs/pairs/recipe.toml").read_text()
    [split] = [line for line in said.splitlines() if line.startswith("split: ")]
    assert split.endswith("(by a hash of the source; no source is in two parts)") and f"# {split}\n" in text
    assert text.startswith("# pairs: 60 (pairs.tsv)\n")
    assert "model: " not in said.split("parameters")[0], "the size was given"
    assert "learning rate: " in said and "steps: up to" not in said
    command("train", "runs/pairs/recipe.toml", "--out", "again")
    assert weights_of("again") == weights_of("runs/pairs")
    assert Path("again/recipe.toml").read_text() == text
    ended = command("train", "runs/pairs", "--resume", "--evaluate", "--set", "training.steps=4")[0]
    assert command("train", "runs/pairs", "--resume")[0] == ended, "evaluated by default, as it would have been at once"
    assert Path("runs/pairs/recipe.toml").read_text().startswith("# pairs: 60 (pairs.tsv)\n")
    assert "finished at step 4" in command("train", "pairs.tsv", "--resume")[1]
    scores = json.loads(command("evaluate", "runs/pairs", "--json")[0])
    assert scores["pairs"] == int(split.split(" to validate, ")[1].split()[0])


@pytest.mark.parametrize(
    "arguments",
    [
        ["packed.tsv.gz"],
        ["pairs.csv"],
        ["rows.jsonl", "--source", "a", "--target", "b"],
        ["--source", "a.de", "--target", "a.en"],
        ["p*s.tsv"],
    ],
    ids=" ".join,
)
def test_other_forms_of_the_same_pairs(command: Command, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = recommended(command, monkeypatch, ["pairs.tsv"], arguments)
    first, other = (recipe.model_dump(exclude={"name", "data"}) for recipe in recipes)
    assert first == other
    assert recipes[0].data.holdout == recipes[1].data.holdout


def recommended(command: Command, monkeypatch: pytest.MonkeyPatch, *commands: list[str]) -> list[Recipe]:
    """The recipes that these commands would train."""
    recipes: list[Recipe] = []
    with monkeypatch.context() as patch:
        patch.setattr(train, "_train", lambda request, team, watch: recipes.append(request.settings()))
        for arguments in commands:
            command("train", *arguments)
    return recipes


def test_a_folder_with_parts(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    [recipe] = recommended(command, monkeypatch, ["parts"])
    assert (recipe.name, recipe.data.valid, recipe.data.test) == ("parts", "parts/valid.tsv", "parts/test.tsv")
    assert recipe.data.holdout.valid == recipe.data.holdout.test == 0
    Path("parts/test.tsv").unlink()
    [recipe] = recommended(command, monkeypatch, ["parts"])
    assert recipe.data.holdout.valid == 0 and recipe.data.holdout.test > 0 and recipe.data.test is None


def test_standard_input_is_kept_beside_the_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, suffix in (("pairs.tsv", ".tsv"), ("packed.tsv.gz", ".tsv.gz")):
        content = Path(name).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        [recipe] = recommended(command, monkeypatch, ["-", "--out", "runs/mine"])
        assert recipe.data.train == f"runs/mine{suffix}" and Path(recipe.data.train).read_bytes() == content
        assert recipe.name == "mine"


def test_a_pipe_is_kept_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("pipe")
    content = Path("pairs.tsv").read_bytes()
    Thread(target=Path("pipe").absolute().write_bytes, args=(content,), daemon=True).start()
    [recipe] = recommended(command, monkeypatch, ["pipe"])
    assert recipe.data.train == "runs/pairs.tsv" and Path("runs/pairs.tsv").read_bytes() == content


def test_choices_of_another_recipe(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = load_recipe("g2p")
    [recipe] = recommended(command, monkeypatch, ["pairs.tsv", "--like", "g2p"])
    assert (recipe.model, recipe.tokenizer, recipe.training) == (shipped.model, shipped.tokenizer, shipped.training)
    assert recipe.data.train == "pairs.tsv" and recipe.data.holdout.valid > 0 and recipe.name == "pairs"


def test_the_model_of_a_run(command: Command, monkeypatch: pytest.MonkeyPatch, runs: Callable[[str], Path]) -> None:
    [recipe] = recommended(command, monkeypatch, ["pairs.tsv", "--from", str(runs("lstm"))])
    assert recipe.model == load_recipe(runs("lstm") / "recipe.toml").model
    assert recipe.training.start == str(runs("lstm").resolve())


def test_workers_get_the_recipe_and_its_reasons(tmp_path: Path) -> None:
    request = TrainingRequest(
        "pairs.tsv", ["seed=3"], None, None, False, pairs=find_pairs("pairs.tsv", None, None, None)
    )
    request = request.with_recommendation()
    command, path, *rest = train.worker_arguments(request, tmp_path / "parts")
    assert (command, rest) == ("train", ["--out", "runs/pairs"])
    recipe = load_recipe(path)
    assert recipe.seed == 3 and recipe.data.folder == str(tmp_path) and recipe.name == "pairs"
    worker = TrainingRequest(path, [], Path("runs/pairs"), None, False)
    assert worker.comments() == request.comments() != []


def test_steps_that_were_fitted_have_another_reason(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.recipe.write_text("seed = 1\n")
    started = Started(0, 1, {}, 1, 1, 1, "cpu", 50, "run")
    fitted = Fitted(0, 2.0, 50, 900, 0.1, 1, 0.1, 9.0)
    comments = ["task: words (why)", "steps: up to 900 (why)", "learning rate: 0.1 (warmup of 90 steps)"]
    assert with_batch(["batch: 9 tokens (why)", "seed: 1"], 1_024) == [
        "seed: 1",
        "batch: 1,024 tokens (smaller ones, since there is time for more of them)",
    ]
    events = annotated((event for event in (started, fitted)), run, comments)
    assert [next(events)] == [started] and run.recipe.read_text().count("# ") == 3
    assert [*events] == [fitted]
    assert run.recipe.read_text() == (
        "# task: words (why)\n# steps: up to 50 (fitted to 2 min, with warmup and validations; 900 without a limit)\n\n"
        "seed = 1\n"
    )


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "no pairs: give a file or a folder, or two files with --source and --target"),
            (["none.tsv"], "none.tsv: no such file or folder; give a file of pairs, two parallel files or a folder"),
            (["pairs.tsv", "--source", "1"], "--source and --target go together: two files, or two columns of a table"),
            (["rows.jsonl", "--source", "a", "--target", "c"], "rows.jsonl: no column 'c'; it has id, b, a"),
            (["g2p", "--like", "lstm"], "--like lstm: needs a file of pairs; g2p is not one"),
            (["a.de"], "a.de: 1 column; expected a source, a tab and a target in each line; or give two files with "
             "--source and --target"),
        ],
    )  # fmt: skip
    def test_in_a_line(self, refusal: Refusal, arguments: list[str], message: str) -> None:
        assert refusal("train", *arguments) == message
        assert not Path("runs").exists()

    def test_a_run_that_exists(self, refusal: Refusal) -> None:
        Path("runs/pairs").mkdir(parents=True)
        Path("runs/pairs/x").touch()
        assert refusal("train", "pairs.tsv").startswith("runs/pairs: already exists; ")

    def test_saved_standard_input(self, refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
        assert (
            refusal("train", "-", "--out", "pairs") == "pairs.tsv: already exists; remove it, or choose another --out"
        )
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
        assert refusal("train", "-", "--out", "other", "--set", "training.stps=2").startswith("training.stps: unknown")
        assert not Path("other.tsv").exists(), "the command can be corrected and repeated"


def test_a_name_that_nothing_has(refusal: Refusal) -> None:
    where = "neither a file of pairs nor a recipe has this name; "
    assert refusal("train", "gramar") == f"gramar: {where}did you mean 'grammar'?"
    for name in ("nofile", "data/nofile"):
        expected = f"{name}: {where}check the path, or choose a recipe (weft recipes lists them)"
        assert refusal("train", name) == expected
    assert refusal("train", "a\0\nb" + "x" * 5000).startswith("a\\x00\\nbxx")
