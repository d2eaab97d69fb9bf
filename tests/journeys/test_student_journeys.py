"""Students, back-translation and a race, from end to end: each command in a process of its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from fixtures import kinds_of_pairs
from journeys.checks import largest_difference
from journeys.journeys import Journey, journeys, write_rows
from journeys.processes import Processes, Result

pytestmark = pytest.mark.journey
TEACHERS = ("pairs-sentences", "pairs-spellings", "pairs-commands")
"""A Transformer or an LSTM with soft attention, hard attention, and location attention."""
STUDENT = ("--set", "training.steps=16", "--set", "training.validate_every=8", "--set", "training.log_every=1")


LEARNS_TO_END = (
    "--set",
    "training.steps=200",
    "--set",
    "training.validate_every=100",
    "--set",
    "training.learning_rate=0.01",
)
"""Settings with which a small teacher's outputs end; those that are cut off are not learned from."""


class Teacher:
    """A trained run in a folder, and the commands that use it."""

    def __init__(self, journey: Journey, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        journey.prepare(folder)
        self.weft("train", journey.argument, "--out", "teacher", "--no-evaluate", *journey.options(), *LEARNS_TO_END)

    def weft(self, *arguments: str, stdin: str = "") -> Result:
        result = self.processes.weft(self.folder, *arguments, stdin=stdin)
        assert result.code == 0, result.stderr
        return result

    def check(self, run: str) -> None:
        """A student translates and scores in new processes, there the same, and is used with int8 weights."""
        pairs, scores, outputs = self.processes.call(self.folder, "journeys.checks:used", run)
        sources = "".join(f"{source}\n" for source, _ in pairs)
        lines = self.weft("translate", run, "--json", stdin=sources).json_lines
        assert largest_difference([line["score"] for line in lines], outputs) < 1e-4
        texts = "".join(f"{source}\t{target}\n" for source, target in pairs)
        lines = self.weft("score", run, "--json", stdin=texts).json_lines
        assert largest_difference([line["log_probability"] for line in lines], scores) < 1e-4
        quantized = self.weft("translate", run, "--search", "greedy", "--precision", "int8", stdin=sources).stdout
        assert len(quantized.splitlines()) == len(pairs)


@pytest.fixture(scope="module", params=TEACHERS)
def teacher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, light_processes: Processes
) -> Teacher:
    return Teacher(journeys()[request.param], tmp_path_factory.mktemp("teacher"), light_processes)


def test_a_student_is_interrupted_and_continued(teacher: Teacher) -> None:
    arguments = ("distill", "teacher", "--student", "small", "--out", "student", *STUDENT)
    interrupted = teacher.processes.weft(teacher.folder, *arguments, interrupt_at=5)
    assert interrupted.code == 128 + signal.SIGTERM, interrupted.stderr
    assert "finished at step 16" in teacher.weft(*arguments).stderr
    teacher.check("student")


def test_word_level_and_monolingual_text(teacher: Teacher) -> None:
    options = ("--method", "word", "--student", "same", "--references", "1", *STUDENT)
    teacher.weft("distill", "teacher", *options, "--out", "word")
    teacher.check("word")
    sources = [line.split("\t")[0] for line in (teacher.folder / "pairs.tsv").read_text("utf-8").splitlines()[:20]]
    (teacher.folder / "more.txt").write_text("".join(f"{source}\n" for source in sources), "utf-8")
    interpolated = ("--method", "interpolation", "--n-best", "2", "--monolingual", "more.txt", *STUDENT)
    teacher.weft("distill", "teacher", "word", *interpolated, "--out", "interpolated")
    teacher.check("interpolated")


def test_back_translated_pairs_are_trained_on(teacher: Teacher) -> None:
    pairs = [line.split("\t") for line in (teacher.folder / "pairs.tsv").read_text("utf-8").splitlines()]
    (teacher.folder / "targets.txt").write_text("".join(f"{pair[0]}\n" for pair in pairs[:20]), "utf-8")
    teacher.weft("back-translate", "teacher", "targets.txt", "--out", "back.tsv")
    made = (teacher.folder / "back.tsv").read_text("utf-8").splitlines()
    assert made and all(line.count("\t") == 1 for line in made)


def test_a_short_race_and_its_run(tmp_path: Path, light_processes: Processes) -> None:
    """Whether there is time for a race depends on the machine; either way it is said, and the run is complete."""
    write_rows(tmp_path / "pairs.tsv", kinds_of_pairs.spellings(200))
    result = light_processes.weft(tmp_path, "train", "pairs.tsv", "--minutes", "0.8", "--out", "run")
    assert result.code == 0, result.stderr
    raced = [line for line in result.stderr.splitlines() if line.startswith(("race: ", "no race: "))]
    assert raced, result.stderr
    if raced[0].startswith("race: "):
        record = json.loads((tmp_path / "run" / "race" / "race.json").read_text("utf-8"))
        assert record["winner"] in record["probes"]
    assert not (tmp_path / "run.race").exists()
    assert light_processes.weft(tmp_path, "translate", "run", stdin="abba\n").code == 0
