"""Tuning as a whole, with invented scores and with real, tiny trainings."""

import json
import sys
import tomllib

import pytest

from fixtures.tuning_runners import InlineRunner, InventedRunner
from weft.apps.tuning.candidates import higher_rate, lower_rate, more_dropout
from weft.apps.tuning.events import Failed, Planned, RungFinished, RungStarted, Scored, Tuned
from weft.apps.tuning.tune import tune
from weft.data.preparation import corpora
from weft.errors import CheckpointError, DataError, RecipeError, TrainingError
from weft.recipe import load_recipe, make_recipe
from weft.training.train import train

RECIPE = make_recipe({"name": "x"}, ["training.steps=1600", "training.validate_every=200", "training.metric=bleu"])
VALUES = {
    "recipe": 50.0,
    "dropout-0.3": 61.0,
    "rate-0.004": 10.0,
    "transformer": 70.0,
    "rate-0.001": 43.0,
    "wider": 58.0,
    "vocabulary-2000": 59.0,
    "narrower": 20.0,
    "smoothing-0": 55.0,
}


def score(name, step):
    """Transformers begin well and end badly."""
    return VALUES[name] - (15.0 if name == "transformer" and (step is None or step > 400) else 0.0)


def tuned(runner, folder, recipe=RECIPE, minutes=600.0):
    return list(tune(recipe, folder, minutes=minutes, runner=runner))


@pytest.fixture
def _no_picture(monkeypatch):
    """Drawing takes longer than all the rest."""
    monkeypatch.setattr("weft.pictures.tuning_curves.draw_curves", lambda *arguments, **options: None)


def rungs_by_enumeration(score, sizes, steps):
    """Literally: train all, sort, cut; then the next rung."""
    names, trained = list(VALUES), []
    for size, step in zip(sizes, steps, strict=True):
        names = names[:size]
        trained += [("train", name, step) for name in names]
        names = sorted(names, key=lambda name: score(name, step), reverse=True)
    return trained, names


@pytest.mark.usefixtures("_no_picture")
def test_the_rungs_are_those_of_a_literal_enumeration(tmp_path):
    runner = InventedRunner(score, every=200)
    events = tuned(runner, tmp_path / "out")
    expected, finalists = rungs_by_enumeration(score, [9, 5, 3], [400, 800, 1600])
    assert [job for job in runner.jobs if job[0] == "train"] == expected
    assert [event.step for event in events if isinstance(event, RungStarted)] == [400, 800, 1600]
    assert [event.survivors for event in events if isinstance(event, RungFinished)][-1] == finalists
    result = events[-1].result
    assert result.best.name == "dropout-0.3" == finalists[0]
    assert [candidate.name for candidate in result.candidates[:3]] == finalists
    assert {candidate.name for candidate in result.candidates} == set(VALUES)
    assert {candidate.step for candidate in result.candidates[3:]} == {400, 800}
    assert result.ensemble.members == tuple(finalists) and result.ensemble.gain == 1.5
    assert result.difference_from_base() == (400, 11.0)


@pytest.mark.usefixtures("_no_picture")
def test_candidates_of_equal_speed_are_measured_once(tmp_path):
    runner = InventedRunner(score)
    tuned(runner, tmp_path / "out")
    measured = [name for action, name, _ in runner.jobs if action == "measure"]
    assert measured == ["recipe", "transformer", "wider", "vocabulary-2000", "narrower"]


@pytest.mark.usefixtures("_no_picture")
@pytest.mark.parametrize("done", [0, 1, 4, 5, 6, 13, 14, 15, 18, 19, 21, 22])
def test_the_same_call_continues_and_does_nothing_twice(tmp_path, done):
    whole = InventedRunner(score)
    expected = tuned(whole, tmp_path / "whole")[-1].result
    first, second = InventedRunner(score, stop_after=done), InventedRunner(score)
    with pytest.raises(KeyboardInterrupt):
        tuned(first, tmp_path / "out")
    result = tuned(second, tmp_path / "out")[-1].result
    assert result == expected
    assert first.jobs + second.jobs == whole.jobs


@pytest.mark.usefixtures("_no_picture")
def test_a_finished_run_shows_its_result_again(tmp_path):
    result = tuned(InventedRunner(score), tmp_path / "out")[-1].result
    again = InventedRunner(score)
    assert tuned(again, tmp_path / "out")[-1].result == result
    assert again.jobs == []


@pytest.mark.usefixtures("_no_picture")
def test_a_candidate_that_fails_is_listed_and_the_others_go_on(tmp_path):
    failures = {("wider", 0): "not enough memory", ("dropout-0.3", 800): "step 612: the loss was not finite"}
    runner = InventedRunner(score, failures=failures)
    events = tuned(runner, tmp_path / "out")
    assert {(event.name, event.reason) for event in events if isinstance(event, Failed)} == {
        (name, reason) for (name, _), reason in failures.items()
    }
    result = events[-1].result
    assert result.best.name == "vocabulary-2000"
    failed = {candidate.name: candidate.problem for candidate in result.candidates if candidate.state == "failed"}
    assert failed == {name: reason for (name, _), reason in failures.items()}
    assert ("train", "dropout-0.3", 1600) not in runner.jobs
    assert tuned(InventedRunner(score), tmp_path / "out")[-1].result == result


def test_it_ends_if_everything_fails(tmp_path):
    everything = {(name, step): "not enough memory" for name in VALUES for step in (0, 400)}
    with pytest.raises(TrainingError, match="no candidate can be trained; recipe: not enough memory"):
        tuned(InventedRunner(score, failures=everything), tmp_path / "measured")
    at_step = {key: reason for key, reason in everything.items() if key[1]}
    with pytest.raises(TrainingError, match="every candidate failed; recipe: not enough memory"):
        tuned(InventedRunner(score, failures=at_step), tmp_path / "trained")


def test_an_error_of_the_recipe_itself_is_raised(tmp_path):
    (tmp_path / "bad.tsv").write_text("one column\n", "utf-8")
    recipe = make_recipe({"data": {"train": str(tmp_path / "bad.tsv"), "valid": str(tmp_path / "bad.tsv")}})
    for _ in range(2):  # the failure is not kept: the file may be mended
        with pytest.raises(DataError, match=r"bad\.tsv:1: 1 column"):
            tuned(InlineRunner(), tmp_path / "out", recipe)


@pytest.mark.usefixtures("_no_picture")
def test_little_time_trains_few_candidates_for_few_steps(tmp_path):
    events = tuned(InventedRunner(score), tmp_path / "out", minutes=0.5)
    [planned] = [event for event in events if isinstance(event, Planned)]
    assert len(planned.plan.candidates) == 4 and planned.plan.steps < 1600
    assert planned.left_out == list(VALUES)[4:]
    states = {candidate.name: candidate.state for candidate in events[-1].result.candidates}
    assert [name for name, state in states.items() if state == "left out"] == planned.left_out


@pytest.mark.usefixtures("_no_picture")
def test_a_time_that_was_too_short_can_be_extended(tmp_path):
    with pytest.raises(RecipeError, match="time for 8 steps of each candidate; give at least 1 min more"):
        tuned(InventedRunner(score), tmp_path / "out", minutes=0.1)
    runner = InventedRunner(score)
    tuned(runner, tmp_path / "out")
    assert "measure" not in {action for action, *_ in runner.jobs}


@pytest.mark.usefixtures("_no_picture")
def test_a_slow_rung_lets_fewer_continue(tmp_path):
    class Slow(InventedRunner):
        def outcome(self, job):
            outcome = super().outcome(job)
            return {**outcome, "training_seconds": 1e6} if job.action == "train" else outcome

    events = tuned(Slow(score), tmp_path / "out")
    assert [event.survivors for event in events if isinstance(event, RungFinished)] == [
        ["transformer"],
        ["transformer"],
    ]


def test_the_files(tmp_path):
    folder = tmp_path / "out"
    tuned(InventedRunner(score, every=200), folder)
    record = json.loads((folder / "results.json").read_text("utf-8"))
    assert record["metric"] == "bleu" and record["candidates"][0]["name"] == "dropout-0.3"
    rows = [line.split("\t") for line in (folder / "results.tsv").read_text("utf-8").splitlines()]
    assert len(rows) == 10 and {len(row) for row in rows} == {11}
    assert rows[1][:5] == ["dropout-0.3", "dropout 0.1 → 0.3", "stopped", "1600", "61.0"]
    assert (folder / "curves.svg").read_text("utf-8").count("halving") == 2
    text = (folder / "best.toml").read_text("utf-8")
    assert all(f"#   {name} " in text for name in VALUES)
    best = load_recipe(folder / "best.toml")
    assert best.model.dropout == 0.3 and best.name == "x-tuned" and best.training.steps == 1600
    assert tomllib.loads(text)["data"]["train"] == "grammar"


def test_what_cannot_be_tuned(tmp_path):
    for minutes in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(RecipeError, match=r"minutes=.*: expected a number of minutes above 0"):
            tuned(InventedRunner(score), tmp_path, minutes=minutes)
    with pytest.raises(RecipeError, match=r"data\.valid: candidates are compared on a validation set; name one"):
        tuned(InventedRunner(score), tmp_path, make_recipe({"data": {"train": "pairs.tsv"}}))
    with pytest.raises(RecipeError, match=r"data\.valid: several candidates cannot all read standard input \(-\)"):
        tuned(InventedRunner(score), tmp_path, make_recipe({"data": {"train": "pairs.tsv", "valid": "-"}}))
    with pytest.raises(DataError, match=r"data\.train: .*no\.tsv: no such file"):
        tuned(InventedRunner(score), tmp_path, make_recipe({"data": {"train": "no.tsv", "valid": "no.tsv"}}))
    with pytest.raises(RecipeError, match=r"training\.metric: unknown metric 'blue'; did you mean 'bleu'\?"):
        tuned(InventedRunner(score), tmp_path, make_recipe({"training": {"metric": "blue"}}))
    with pytest.raises(DataError, match=r"pairs: 3 \(int\) was given, expected a list of pairs"):
        tuned(InventedRunner(score), tmp_path, 3)
    with pytest.raises(RecipeError, match="changes: of no use with a recipe that is made already"):
        next(tune(make_recipe({}), tmp_path, changes="seed=3"))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_no_picture")
def test_another_request_in_the_same_folder_is_refused(tmp_path):
    folder = tmp_path / "out"
    tuned(InventedRunner(score), folder)
    other = make_recipe({"name": "x"}, ["training.steps=1601", "training.validate_every=200", "training.metric=bleu"])
    with pytest.raises(CheckpointError, match="out: was tuned with steps = 1600, not steps = 1601; choose another out"):
        tuned(InventedRunner(score), folder, other)
    with pytest.raises(
        CheckpointError, match="out: was planned for 600 minutes; continue with minutes='600', or choose"
    ):
        tuned(InventedRunner(score), folder, minutes=30.0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="full: already exists and is not a tuning run; choose another out"):
        tuned(InventedRunner(score), tmp_path / "full")


REAL = {
    "training.steps": 16,
    "training.validate_every": 8,
    "training.metric": "exact_match",
    "data.valid_size": 6,
    "search.kind": "greedy",
    "search.max_length": 8,
}


@pytest.fixture
def _quick(monkeypatch):
    monkeypatch.setattr("weft.pairs.time_limit.speed.MIN_UPDATES", 4)
    monkeypatch.setattr("weft.apps.tuning.tune.MEASURED_SECONDS", (0.0, 0.02))
    monkeypatch.setattr("weft.apps.tuning.candidates.VARIANTS", (more_dropout, lower_rate, higher_rate))


@pytest.mark.usefixtures("_quick")
def test_real_trainings(tiny, tmp_path):
    """On a built-in task: the models can be loaded, the best recipe trains, and the ensemble has a score."""
    events = tuned(InlineRunner(), tmp_path / "out", tiny(REAL))
    result = events[-1].result
    assert isinstance(events[-1], Tuned) and len(result.finished) == 3 and result.pairs == 6
    assert result.ensemble.members[0] in {candidate.name for candidate in result.finished}
    assert not [event for event in events if isinstance(event, Failed)]
    assert all(event.value is not None for event in events if isinstance(event, Scored))
    best = load_recipe(tmp_path / "out" / "best.toml")
    assert best.training.validate_every == 2 and best.training.steps == 16 and best.data.prepared is None
    for _ in train(best, tmp_path / "again"):
        pass
    run = tmp_path / "out" / "runs" / result.best.name
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert {candidate.curve[-1][0] for candidate in result.finished} == {16}


class TestTestSet:
    """No pair of the test set is read, in a file of its own or as a part of the training file."""

    @pytest.fixture
    def pairs(self, tmp_path, monkeypatch):
        lines = [f"{a} {b}\t{b} {a}\n" for a in "abcdefgh" for b in "abcdefgh"]
        for name, part in (("train", lines[:50]), ("valid", lines[50:56]), ("test", lines[56:])):
            (tmp_path / f"{name}.tsv").write_text("".join(part), "utf-8")
        monkeypatch.chdir(tmp_path.parent)
        return {"data.train": "train.tsv", "data.folder": tmp_path.name}  # relative to the current folder

    @pytest.fixture(autouse=True)
    def _one_candidate(self, _quick, _no_picture, monkeypatch):
        monkeypatch.setattr("weft.apps.tuning.candidates.VARIANTS", ())

    def test_a_file_of_its_own(self, tiny, tmp_path, pairs, opened_files, monkeypatch):
        monkeypatch.setattr("weft.data.fingerprints._hash", lambda *file: "")  # of which a run records the fingerprint
        recipe = tiny({**REAL, **pairs, "data.valid": "valid.tsv", "data.test": "test.tsv"})
        tuned(InlineRunner(), tmp_path / "out", recipe)
        names = {path.name for path in opened_files}
        assert {"train.tsv", "valid.tsv"} <= names and "test.tsv" not in names

    def test_a_part_of_the_training_file(self, tiny, tmp_path, pairs, monkeypatch):
        splits, find = set(), corpora.find_corpora

        def recording(recipe, split, **options):
            splits.add(split)
            return find(recipe, split, **options)

        for module in ("weft.data.preparation.corpora", "weft.data.preparation.prepare", "weft.training.train"):
            monkeypatch.setattr(sys.modules[module], "find_corpora", recording)
        recipe = tiny({**REAL, **pairs, "data.holdout.valid": 0.2, "data.holdout.test": 0.2})
        tuned(InlineRunner(), tmp_path / "out", recipe)
        assert splits == {"train", "valid"}
