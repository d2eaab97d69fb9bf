"""``weft tune``."""

import json
import os
import subprocess
import sys
import time

import pytest

from fixtures.tuning_runners import InlineRunner, InventedRunner
from weft.apps.cli.commands.tune import Reporter
from weft.apps.tuning.candidates import lower_rate, more_dropout
from weft.apps.tuning.events import Planned, RungFinished, RungStarted, Scored
from weft.apps.tuning.plan import TuningPlan
from weft.recipe import load_recipe

TINY = [
    *("data.train=copy", "data.train_size=60", "data.valid_size=6", "data.options.length=4", "tokenizer.kind=word"),
    *("model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "training.steps=8"),
    *("training.validate_every=4", "training.batch_tokens=64"),
]
SETTINGS = [word for change in TINY for word in ("--set", change)]


@pytest.fixture
def runner(monkeypatch):
    """Three candidates, in this process."""
    runner = InlineRunner()
    monkeypatch.setattr("weft.apps.tuning.tune._process_runner", lambda *arguments: runner)
    monkeypatch.setattr("weft.pairs.time_limit.speed.MIN_UPDATES", 4)
    monkeypatch.setattr("weft.apps.tuning.tune.MEASURED_SECONDS", (0.0, 0.02))
    monkeypatch.setattr("weft.apps.tuning.candidates.VARIANTS", (more_dropout, lower_rate))
    return runner


def test_from_the_candidates_to_the_commands(command, runner, tmp_path):
    arguments = ("tune", "grammar", *SETTINGS, "--minutes", "500", "--out", tmp_path / "out")
    said = command(*arguments)
    assert "3 candidates, 1 in parallel" in said.stderr
    assert "dropout-0.2  dropout 0 → 0.2 (more regularization, for small data)" in said.stderr
    assert "rung 1 of 1: 3 candidates to step 8" in said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].split()[:3] == ["candidate", "loss", "whole"]
    assert any(line.startswith("ensemble of ") for line in lines)
    assert any(line.startswith("validation loss from ") for line in lines)
    assert any(line.startswith(f"  weft translate {tmp_path / 'out' / 'runs'}") for line in lines)
    done = len(runner.jobs)
    record = json.loads(command(*arguments, "--json").stdout)
    assert len(runner.jobs) == done and len(record["candidates"]) == 3


def test_an_interruption(command, monkeypatch, tmp_path):
    runner = InventedRunner(lambda name, step: 1.0, stop_after=2)
    monkeypatch.setattr("weft.apps.tuning.tune._process_runner", lambda *arguments: runner)
    said = command("tune", "grammar", "--out", tmp_path / "out", check=130)
    assert said.stderr.splitlines()[-1] == "weft: interrupted; repeat the command to continue"


def test_pairs_in_place_of_a_recipe(command, monkeypatch, tmp_path):
    """The recipe for them is chosen first, with its reasons; validation pairs are held out."""
    lines = [f"{a}{b}{c}\t{a} {b} {c}\n" for a in "abcdefg" for b in "hijklmn" for c in "opqrs"]
    (tmp_path / "words.tsv").write_text("".join(lines), "utf-8")
    monkeypatch.chdir(tmp_path)
    runner = InventedRunner(lambda name, step: float(len(name)))
    monkeypatch.setattr("weft.apps.tuning.tune._process_runner", lambda *arguments: runner)
    said = command("tune", "words.tsv", "--minutes", "9000", "--device", "cpu", "--set", "training.steps=800")
    assert "split: 215 to train on, 13 to validate" in said.stderr and "  recipe " in said.stderr
    best = load_recipe(tmp_path / "runs" / "words-tuned" / "best.toml")
    assert best.data.holdout.valid > 0 and best.data.folder == str(tmp_path)
    assert (best.training.device, best.training.steps, best.name) == ("cpu", 800, "words-tuned")
    done = len(runner.jobs)
    command("tune", "words.tsv", "--minutes", "9000", "--device", "cpu", "--set", "training.steps=800")
    assert len(runner.jobs) == done


def test_refusals(refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = "gramar: neither a file of pairs nor a recipe has this name; did you mean 'grammar'?"
    assert refusal("tune", "gramar") == expected
    assert refusal("tune", "grammar", "--minutes", "0") == "--minutes 0.0: expected a number of minutes above 0"
    assert refusal("tune", "grammar", "--set", "data.train=x.tsv").startswith("data.valid: candidates are compared")
    assert refusal("tune", "-").startswith("-: standard input cannot be read again")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    message = "full: already exists and is not a tuning run; choose another --out"
    assert refusal("tune", "grammar", "--out", "full") == message
    assert (
        refusal("tune", "grammar", "--device", "tpu") == "--device tpu: no such device; use auto, cpu, cuda or cuda:N"
    )


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_result(tmp_path):
    """Real processes, two at once: kill -9 of the command after each few results, compared with a run in peace."""
    arguments = [sys.executable, "-m", "weft", "tune", "grammar", *SETTINGS, "--minutes", "600", "--parallel", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([*arguments, "--out", tmp_path / "peace"], env=environment, check=True, capture_output=True)
    results, done = tmp_path / "out" / "results", 0
    for _ in range(4):
        process = subprocess.Popen([*arguments, "--out", tmp_path / "out"], env=environment, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(results.glob("*.json"))) < done + 4:
            time.sleep(0.05)
        process.kill()
        process.wait()
        done = len(list(results.glob("*.json")))
    subprocess.run([*arguments, "--out", tmp_path / "out"], env=environment, check=True, capture_output=True)
    peace, out = (json.loads((tmp_path / name / "results.json").read_text("utf-8")) for name in ("peace", "out"))
    for result in (peace, out):
        for candidate in result["candidates"]:
            del candidate["seconds"]
    assert out == peace
    assert {candidate["state"] for candidate in out["candidates"]} == {"finished", "stopped"}


def test_why_it_ends_before_its_time(capsys):
    """Of all minutes, 45 seconds: the recipe has no more steps, or candidates no longer improve."""
    plan = TuningPlan(["recipe", "wider"], 992, [496, 992], 16, 100, 40.0)
    events = [
        Planned(plan, [], 1_000, 170.0),
        RungStarted(1, 2, 496, ["recipe", "wider"]),
        Scored("recipe", 1, 496, 0.5, "exact_match", 12.0),
        Scored("wider", 1, 310, 0.7, "exact_match", 8.0),
        RungFinished(1, ["wider", "recipe"], []),
        RungStarted(2, 2, 992, ["wider", "recipe"]),
    ]
    assert list(Reporter()(events)) == events
    assert capsys.readouterr().err.splitlines() == [
        "992 steps, compared at step 496, 992; about 40 s",
        "these are all steps of the recipe: tuning ends before its 2 min 50 s are over; a larger training.steps, in "
        "another --out, uses them",
        "rung 1 of 2: 2 candidates to step 496",
        "  recipe: validation exact_match 0.50 at step 496, 12 s",
        "  wider: validation exact_match 0.70 at step 310, 8 s; ended: no further improvement (training.patience)",
        "  continued: wider, recipe",
        "rung 2 of 2: 2 candidates to step 992",
        "  not trained further (no further improvement, training.patience): wider",
    ]


@pytest.mark.parametrize(
    ("steps", "seconds", "line"),
    [
        (1_000, 140.0, None),  # the time is used
        (976, 20.0, "the time allows for 98% of the 1,000 steps"),
        (1_000, 127.0, "these are all steps of the recipe"),
    ],
)
def test_what_a_plan_says_of_its_steps(capsys, steps, seconds, line):
    list(Reporter()([Planned(TuningPlan(["recipe"], steps, [steps], 16, 100, seconds), [], 1_000, 170.0)]))
    _, *more = capsys.readouterr().err.splitlines()
    assert [text.startswith(line) for text in more] == ([] if line is None else [True])
