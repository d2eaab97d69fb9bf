"""``weft translate --confidence``, thresholds, reviews and drift; and the options that do not go together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.evaluation.calibrate import calibrate
from weft.translation.load import load
from weft.translation.translator import Translator

Command = Callable[..., Any]
Refusal = Callable[..., str]
WORDS = [f"{a} {b} {c}" for a in "abcd" for b in "abcd" for c in "abcde"]


@pytest.fixture(scope="module")
def run(copier: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated run: outputs count as wrong if their source begins with d."""
    assert copier.folder is not None
    folder = tmp_path_factory.mktemp("judged") / "run"
    shutil.copytree(copier.folder, folder)
    calibrate(load(folder), [(text, "x" if text.startswith("d") else text) for text in WORDS], right="exact")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("a b c\n\nd d a\nb a a\n", "utf-8")
    return path


def columns(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


class TestColumn:
    def test_of_each_line(self, command: Command, run: Path, source: Path) -> None:
        rows = columns(command("translate", run, source, "--confidence").stdout)
        plain = command("translate", run, source).stdout.splitlines()
        assert [row[0] for row in rows] == plain and rows[1] == ["", ""]
        outputs = load(run).translate(["a b c", "d d a", "b a a"], return_attention=False)
        assert [row[1] for row in (rows[0], *rows[2:])] == [f"{one.confidence:.3f}" for one in outputs]

    def test_with_alternatives_and_as_json(self, command: Command, run: Path, source: Path) -> None:
        rows = columns(command("translate", run, source, "--confidence", "--n-best", "2").stdout)
        assert len(rows[0]) == 3 and float(rows[0][1]) > 0 and rows[1][1] == "" and float(rows[1][2]) < 0
        records = [json.loads(line) for line in command("translate", run, source, "--json").stdout.splitlines()]
        assert 0 < records[0]["confidence"] < 1 and records[1]["confidence"] is None and "accepted" not in records[0]

    def test_a_skipped_line_has_all_columns(self, command: Command, run: Path, tmp_path: Path) -> None:
        path = tmp_path / "bad.txt"
        path.write_bytes(b"a b\n\xff\xfe\xfa\n")
        said = command("translate", run, path, "--confidence", "--bad-lines", "skip", check=3)
        assert [len(row) for row in columns(said.stdout)] == [2, 2]


class TestThreshold:
    @pytest.mark.parametrize("below", ["blank", "source"])
    def test_outputs_below_it(self, command: Command, run: Path, source: Path, tmp_path: Path, below: str) -> None:
        review = tmp_path / "review.tsv"
        options = ["--min-confidence", "1", "--below", below, "--review", review]
        said = command("translate", run, source, *options)
        expected = ["", "", "", ""] if below == "blank" else source.read_text("utf-8").splitlines()
        assert said.stdout.splitlines() == expected
        assert f"weft: 3 of 4 outputs left out; see {review}" in said.stderr
        header, *rows = columns(review.read_text("utf-8"))
        assert header == ["line", "confidence", "source", "output"]
        assert [(row[0], row[2]) for row in rows] == [("1", "a b c"), ("3", "d d a"), ("4", "b a a")]

    def test_none_is_left_out(self, command: Command, run: Path, source: Path) -> None:
        said = command("translate", run, source, "--min-confidence", "0")
        assert said.stdout == command("translate", run, source).stdout and "0 of 4 outputs left out" in said.stderr

    def test_accepted_outputs_of_unfamiliar_sources_are_counted(
        self, command: Command, run: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "new.txt"
        path.write_text("a b c\nq q q\n", "utf-8")
        warning = "weft: warning: 1 accepted output with unknown tokens or unlike the training data"
        assert warning in command("translate", run, path, "--min-confidence", "0").stderr
        assert "accepted output" not in command("translate", run, path, "--min-confidence", "1").stderr
        assert "accepted output" not in command("translate", run, path, "--confidence").stderr

    def test_json_keeps_the_outputs(self, command: Command, run: Path, source: Path) -> None:
        said = command("translate", run, source, "--min-confidence", "1", "--json")
        records = [json.loads(line) for line in said.stdout.splitlines()]
        assert [record["accepted"] for record in records] == [False, True, False, False] and records[0]["text"]

    def test_a_precision_target(self, command: Command, run: Path, source: Path) -> None:
        said = command("translate", run, source, "--precision-target", "0.5")
        assert "weft: precision target 0.5: outputs with a confidence of at least 0.000 are accepted" in said.stderr

    def test_an_output_is_resumed_with_the_same_threshold_only(
        self, command: Command, refusal: Refusal, run: Path, source: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.txt"
        command("translate", run, source, "--output", out, "--min-confidence", "0.2", "--confidence")
        assert out.read_text("utf-8").count("\n") == 4


def test_drift(command: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a b c d e a b c d e a b c d e\n" * 40, "utf-8")
    assert (
        "weft: warning: the inputs differ from the validation data ("
        in command("translate", run, path, "--confidence").stderr
    )
    assert "differ" not in command("translate", run, path).stderr


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--below", "none"], "--below none: use blank or source"),
            (["--below", "source"], "--below: needs --min-confidence or --precision-target"),
            (["--review", "x.tsv"], "--review: needs --min-confidence or --precision-target"),
            (
                ["--min-confidence", "0.5", "--precision-target", "0.9"],
                "--min-confidence and --precision-target: two thresholds; choose one of them",
            ),
            (["--precision-target", "1"], "--precision-target 1: expected a number between 0 and 1"),
            (["--precision-target", "nan"], "--precision-target nan: expected a number between 0 and 1"),
            (
                ["--min-confidence", "0.5", "--review", "x.tsv", "--part", "1/2"],
                "--review: cannot be used with --resume, --part, --merge or --ray; use --confidence",
            ),
        ],
    )
    def test_options_that_do_not_fit(
        self, refusal: Refusal, run: Path, source: Path, options: list[str], message: str
    ) -> None:
        assert refusal("translate", run, source, *options) == message

    def test_an_ensemble(self, refusal: Refusal, run: Path, source: Path) -> None:
        message = refusal("translate", run, source, "--confidence", "--with", run)
        assert message == "--confidence: the run is calibrated without --with; leave one of them out"

    def test_a_run_that_is_not_calibrated(
        self, refusal: Refusal, run: Path, source: Path, copier: Translator, tmp_path: Path
    ) -> None:
        folder = copier.folder
        assert refusal("translate", str(folder), source, "--confidence") == (
            f"{folder}: this run is not calibrated; calibrate it on its validation set: weft calibrate {folder}"
        )
        other = tmp_path / "other"
        shutil.copytree(run, other)
        content = json.loads((other / "confidence.json").read_text("utf-8"))
        (other / "confidence.json").write_text(json.dumps({**content, "weights": "other"}), "utf-8")
        assert refusal("translate", other, source, "--min-confidence", "0.5") == (
            f"{other}: confidence.json is of other weights; calibrate it on its validation set: weft calibrate {other}"
        )

    def test_a_target_out_of_reach(self, refusal: Refusal, run: Path, source: Path) -> None:
        message = refusal("translate", run, source, "--precision-target", "0.9999")
        assert message.startswith(
            f"--precision-target 0.9999: no confidence reaches it on validation data of {run}, where"
        )
        assert message.endswith("% of all outputs are right; choose a lower one")


def test_flags(command: Command, run: Path, copier: Translator, tmp_path: Path) -> None:
    path = tmp_path / "source.txt"
    path.write_text("a b c\na {x} b\n", "utf-8")
    said = command("translate", run, path, "--flags")
    rows = columns(said.stdout)
    assert rows[0][1] == "" and "placeholder-lost" in rows[1][1].split(",")
    assert "weft: flags of 2 outputs: " in said.stderr and "1 placeholder-lost" in said.stderr
    both = columns(command("translate", run, path, "--flags", "--confidence").stdout)
    assert [len(row) for row in both] == [3, 3] and 0 < float(both[0][1]) < 1
    without = command("translate", str(copier.folder), path, "--flags")  # not calibrated
    assert "placeholder-lost" in without.stdout
    records = [json.loads(line) for line in command("translate", run, path, "--json").stdout.splitlines()]
    assert records[0]["flags"] == [] and "placeholder-lost" in records[1]["flags"]
