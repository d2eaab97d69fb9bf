"""``weft evaluate``: which of the recipe's pairs it measures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]


@pytest.mark.parametrize(("options", "pairs"), [([], 20), (["--split", "test"], 20), (["--split", "valid"], 13)])
def test_the_split_that_is_asked_for(command: Command, runs: Runs, options: list[str], pairs: int) -> None:
    found = json.loads(command("evaluate", runs("lstm"), *options, "--json")[0])
    assert found["pairs"] == pairs


def test_the_loss_of_validation_is_that_of_training(command: Command, finished: Path) -> None:
    """The perplexity of the weights to use is that of the best validation."""
    log = [json.loads(line) for line in (finished / "log.jsonl").read_text("utf-8").splitlines()]
    best = min(line["perplexity"] for line in log if line["event"] == "validation")
    found = json.loads(command("evaluate", finished, "--split", "valid", "--json")[0])
    assert found["metrics"]["perplexity"]["value"] == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("split", ["train", "dev", ""])
def test_another_is_refused(refusal: Callable[..., str], runs: Runs, split: str) -> None:
    assert refusal("evaluate", runs("lstm"), "--split", split) == f"--split {split}: use test or valid"


def test_a_recipe_without_it(refusal: Callable[..., str], tiny: Callable[..., object], tmp_path: Path) -> None:
    from weft.training.train import train

    (tmp_path / "pairs.tsv").write_text("a b\tb a\nc\td\n", "utf-8")
    list(train(tiny({"data.train": str(tmp_path / "pairs.tsv"), "training.steps": 1}), tmp_path / "run"))  # type: ignore[arg-type]
    message = "data.valid: the recipe names no valid pairs; set data.valid, or give a file"
    assert refusal("evaluate", tmp_path / "run", "--split", "valid") == message


SEVERAL = "a b\tb a\nc\tc\na b\ta b\na b\ta b c\n"


def test_pairs_of_one_source_are_one_item_when_asked(command: Command, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(SEVERAL, "utf-8")
    asked = ["evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--metric", "rouge_l", "--metric", "distinct_2"]
    grouped = command(*asked, "--references", "grouped", "--output", tmp_path / "out.txt")[0].splitlines()
    assert grouped[-1].startswith("2 items with 4 references, searched in ")
    assert grouped[0].startswith("ROUGE-L ") and "nrefs:var|" in grouped[0]
    assert [line[:19].rstrip() for line in grouped[1:3]] == ["distinct-2", "  in the references"]
    assert len((tmp_path / "out.txt").read_text("utf-8").splitlines()) == 2
    assert command(*asked)[0].splitlines()[-1].startswith("4 pairs, searched in ")
    found = json.loads(command(*asked, "--references", "grouped", "--json")[0])
    assert (found["pairs"], found["items"]) == (4, 2)


def test_the_help_names_every_metric(command: Command) -> None:
    from weft.evaluation.metrics import METRICS

    said = " ".join(command("evaluate", "--help")[0].split())
    assert f"{', '.join(METRICS)}; may be repeated. exact_match@5: a reference is among the 5 best outputs." in said


def test_an_m2_file(command: Command, refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "gold.m2").write_text("S a b\nA 0 1|||X|||c|||R|||N|||0\n", "utf-8")
    printed = command("evaluate", runs("lstm"), tmp_path / "gold.m2", "--metric", "exact_match@2")[0].splitlines()
    names = ["edit precision", "edit recall", "edit F0.5", "exact match@2", "perplexity"]
    assert [line[:24].rstrip() for line in printed[:5]] == names
    message = f"--search-errors: {tmp_path / 'gold.m2'} is an M2 file; give a file of pairs"
    assert refusal("evaluate", runs("lstm"), tmp_path / "gold.m2", "--search-errors") == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--references", "all"], "--references all: use each or grouped"),
        (
            ["--references", "grouped", "--search-errors"],
            "--search-errors and --references: search errors are those of each pair; leave one out",
        ),
        (["--metric", "rougel"], "metric 'rougel' is unknown; did you mean 'rouge_l'?"),
        (
            ["--references", "grouped", "--metric", "character_error_rate"],
            "metric 'character_error_rate' takes one reference per source; leave it out, or set "
            "evaluation.references = 'each'",
        ),
    ],
)
def test_what_cannot_be_measured(
    refusal: Callable[..., str], runs: Runs, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "pairs.tsv").write_text(SEVERAL, "utf-8")
    assert refusal("evaluate", runs("lstm"), tmp_path / "pairs.tsv", *options) == message


def test_blank_rows_are_told_and_never_right(
    command: Command, refusal: Callable[..., str], runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text("\t\n" * 10 + "a\tz z z z z z z z z\n" * 10, "utf-8")
    asked = ["evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--metric", "exact_match"]
    printed, told = command(*asked, "--output", tmp_path / "out.txt")
    assert "left out: 10 rows with a blank side\n" in told
    assert printed.split()[:3] == ["exact", "match", "0.00"] and printed.splitlines()[-1].startswith("10 pairs, ")
    assert (tmp_path / "out.txt").read_text("utf-8").count("\n") == 10
    found = json.loads(command(*asked, "--json")[0])
    assert (found["pairs"], found["left_out"]) == (10, {"blank": 10})
    assert found["in_training_data"]["compared"] == 10
    exact = ("--search-errors", "--set", "search.max_length=2", "--json")
    judged = json.loads(command("evaluate", runs("lstm"), tmp_path / "pairs.tsv", *exact)[0])
    assert (judged["sentences"], judged["left_out"]) == (10, {"blank": 10})
    (tmp_path / "blank.tsv").write_text("\t\n", "utf-8")
    assert refusal("evaluate", runs("lstm"), tmp_path / "blank.tsv") == (
        "there are no pairs to evaluate on (1 row left out)"
    )


def test_an_output_is_one_line(command: Command, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `translate` writes it: 200 outputs with line ends were 400 lines."""
    from weft.translation.results import empty_translation
    from weft.translation.translator import Translator

    monkeypatch.setattr(
        Translator,
        "translate",
        lambda self, lines, **_: [replace(empty_translation(line), text="x\ny\tz\r") for line in lines],
    )
    (tmp_path / "pairs.tsv").write_text("a\ta\nb\tb\n", "utf-8")
    command("evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--output", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"x y z \n" * 2


def test_an_output_that_cannot_be_written_is_one_line(refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\ta\n", "utf-8")
    out = tmp_path / "none" / "outputs.txt"
    message = refusal("evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--output", out)
    assert message == f"{out}: cannot write: there is no folder {out.parent}"
    message = refusal("evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--output", tmp_path)
    assert message == f"{tmp_path}: cannot write: is a folder"


def test_a_full_disk_does_not_lose_the_scores(
    command: Command, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "pairs.tsv").write_text("a b\ta b\n", "utf-8")
    monkeypatch.setattr("weft.files.os.fsync", full)
    out = tmp_path / "outputs.txt"
    printed, noise = command("evaluate", runs("lstm"), tmp_path / "pairs.tsv", "--output", out, check=2)
    assert "perplexity" in printed and noise.splitlines()[-1] == f"weft: {out}: No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def test_why_rows_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    from weft.apps.cli.commands.evaluate import show_left_out

    show_left_out({"blank": 1, "length": 2, "columns": 3})
    assert capsys.readouterr().err == (
        "left out: 1 row with a blank side\n"
        "left out: 2 rows with a side that is too long\n"
        "left out: 3 rows that cannot be read (columns)\n"
    )


def test_pairs_in_every_format(command: Command, runs: Runs, tmp_path: Path) -> None:
    """The scores are those of the same pairs as TSV; a run whose recipe names no columns finds them, and says so."""
    pairs = [line.split("\t") for line in SEVERAL.splitlines()]
    (tmp_path / "x.tsv").write_text(SEVERAL, "utf-8")
    rows = [json.dumps({"source": source, "target": target}) + "\n" for source, target in pairs]
    (tmp_path / "x.jsonl").write_text("".join(rows), "utf-8")
    (tmp_path / "x.csv").write_text("p;q\n" + "".join(f"{target};{source}\n" for source, target in pairs), "utf-8")
    asked = ["--metric", "chrf", "--metric", "exact_match", "--json"]
    expected = json.loads(command("evaluate", runs("lstm"), tmp_path / "x.tsv", *asked)[0])
    printed, noise = command("evaluate", runs("lstm"), tmp_path / "x.jsonl", *asked)
    assert json.loads(printed)["metrics"] == expected["metrics"] and json.loads(printed)["pairs"] == 4
    assert "columns: source source; target target (the names of the fields)" in noise
    printed = command("evaluate", runs("lstm"), tmp_path / "x.csv", "--source", "q", "--target", "p", *asked)[0]
    assert json.loads(printed)["metrics"] == expected["metrics"]
    scores = command("score", runs("lstm"), tmp_path / "x.jsonl")[0]
    assert scores == command("score", runs("lstm"), tmp_path / "x.tsv")[0]


def test_one_of_two_columns(refusal: Callable[..., str], runs: Runs, tmp_path: Path) -> None:
    message = "--source and --target go together: two files of lines, or two columns of PAIRS"
    assert refusal("evaluate", runs("lstm"), tmp_path / "x.csv", "--source", "q") == message


def test_bad_rows_of_given_pairs(command: Command, runs: Runs, tmp_path: Path) -> None:
    """As data.bad_rows of the run's recipe says."""
    run = shutil.copytree(runs("lstm"), tmp_path / "run")
    file = tmp_path / "x.jsonl"
    file.write_text('{"source": "a b", "target": "b a"}\n{"source": "c", "target": null}\n', "utf-8")
    assert "x.jsonl:2: column 'target' is null, expected text" in command("evaluate", run, file, check=2)[1]
    text = (run / "recipe.toml").read_text("utf-8")
    (run / "recipe.toml").write_text(text.replace('bad_rows = "error"', 'bad_rows = "skip"'), "utf-8")
    for name in ("evaluate", "report"):
        options = ["--samples", "100", "--to", str(tmp_path / "page.html")] if name == "report" else []
        assert "left out: 1 row that cannot be read (columns)" in command(name, run, file, *options)[1]
