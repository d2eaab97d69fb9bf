"""A whole race: three small networks, really trained; only their speed is made up, so that nothing depends on load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import CheckpointError, WeftWarning
from weft.pairs.race import models, plan, probe
from weft.pairs.race import run as run_module
from weft.pairs.race.events import (
    EnsembleScored,
    FurtherModelStarted,
    ModelScored,
    ProbeKept,
    ProbeScored,
    RaceSkipped,
    RaceStarted,
    RaceWon,
    TimeUsed,
)
from weft.pairs.race.record import RaceRecord
from weft.pairs.recommendation import proposals
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.time_limit import fitting, revision
from weft.pairs.time_limit.budget import Speed, TimeLimit
from weft.pairs.train import Evaluated, PlannedRun
from weft.training.events import Event, Finished, Fitted, Started, Validation
from weft.training.train import TrainingOptions

PAIRS = [
    (f"{'bdfgk'[n // 25]}{'aeiou'[n % 5]}{'lmnrs'[n // 5 % 5]}", f"{'BDFGK'[n // 25]} {n % 5}") for n in range(120)
]
TINY = ["model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "training.batch_tokens=128"]
TINY += ["training.steps=40", "training.validate_every=10", "training.learning_rate=0.01", "training.device=cpu"]
TINY += ["training.warmup=2", "training.valid_sentences=5", "search.size=1", "training.save_every=40"]
KINDS = {"gru": ["model.encoder.kind=gru", "model.decoder.kind=gru"], "lstm": [], "narrow": ["model.embedding=2"]}
KINDS["lstm"] = [change.replace("gru", "lstm") for change in KINDS["gru"]]
KINDS["narrow"] += KINDS["gru"]


def propose_small(recommendation: Any, *_: Any) -> list[CandidateRecipe]:
    """Three candidates that take a second together."""
    path = recommendation.profile.input.file
    found = {name: weft.recommend(path, changes=[*TINY, *changes]) for name, changes in KINDS.items()}
    return [CandidateRecipe(name, name.upper(), "", each.recipe, tuple(each.lines())) for name, each in found.items()]


@pytest.fixture(autouse=True)
def made_up_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 36 s: 16 steps in a probe, time for two models of 40 steps."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=36.0))
    monkeypatch.setattr(plan, "MIN_PROBE_STEPS", 10)
    monkeypatch.setattr(probe, "MIN_OBSERVED", 1_000_000)
    monkeypatch.setattr(revision, "CHECKS", ())
    monkeypatch.setattr(plan, "MAX_MODELS", 2)
    monkeypatch.setattr(proposals, "propose", propose_small)


def race() -> Iterator[Event]:
    return weft.train("pairs.tsv", "runs/mine", minutes=100)


def of_kind(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_the_whole_way() -> None:
    events = [*race()]
    kinds = [type(event) for event in events]
    order = [RaceStarted, RaceWon, Started, Fitted, Finished, FurtherModelStarted, TimeUsed, Evaluated]
    assert [kind for kind in kinds if kind in order] == order
    started, won, fitted = (of_kind(events, kind)[0] for kind in (RaceStarted, RaceWon, Fitted))
    assert started.candidates == {"gru": "GRU", "lstm": "LSTM", "narrow": "NARROW"} and not started.continued
    assert set(won.values) == set(KINDS) and won.name in KINDS
    assert (fitted.recipe_steps, fitted.steps) == (40, 44), (
        "as many as are used up by two models and their distillation"
    )
    first, second = of_kind(events, ModelScored)
    assert (first.seed, second.seed, first.chosen) == (1, 2, True)
    assert of_kind(events, TimeUsed)[0].reason.startswith("2 models are enough; ")
    out = Path("runs/mine")
    recipe = weft.load_recipe(out / "recipe.toml")
    assert recipe.seed == (2 if second.chosen else 1) and recipe.training.steps == 44
    text = (out / "recipe.toml").read_text("utf-8")
    assert f"# race: {won.name} won (exact_match " in text and "# pairs: 120 (pairs.tsv)" in text
    assert ("# seed: 2 (the best of 2 on the validation set)" in text) == second.chosen
    assert f"- race: {won.name} won" in (out / "README.md").read_text("utf-8") and not Path("runs/mine.race").exists()
    log = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    assert {"timeused"} <= {record["event"] for record in log}
    record = json.loads((out / "race/race.json").read_text("utf-8"))
    assert record["winner"] == won.name and [model["seed"] for model in record["models"]] == [1, 2]
    assert isinstance(weft.load(out).translate("bal").text, str)
    members = of_kind(events, EnsembleScored)[0]
    assert (out / "race/model-2").exists() == members.better and not (out / "race/model-2/training").exists()
    [*weft.train(recipe, "again")]
    assert (out / "model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()
    assert [type(event) for event in weft.train("runs/mine", resume=True)][-1] is Evaluated


@pytest.mark.parametrize("moment", [ProbeScored, RaceWon])
def test_an_interrupted_race_is_continued_by_the_same_call(moment: type) -> None:
    events = race()
    next(event for event in events if isinstance(event, moment))
    events.close()  # type: ignore[attr-defined]
    assert not Path("runs/mine").exists() and Path("runs/mine.race/race.json").is_file()
    events = race()
    assert next(event for event in events if isinstance(event, RaceStarted)).continued
    assert isinstance([*events][-1], Evaluated) and not Path("runs/mine.race").exists()


def test_a_race_between_other_recipes_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    events = race()
    next(event for event in events if isinstance(event, ProbeScored))
    events.close()  # type: ignore[attr-defined]
    monkeypatch.setitem(KINDS, "narrow", ["model.embedding=3"])
    with pytest.raises(CheckpointError) as error:
        [*race()]
    assert str(error.value) == (
        "runs/mine.race: is of an interrupted race between other recipes or on other pairs; remove it, or choose "
        "another out"
    )


def test_the_interrupted_winner_is_resumed() -> None:
    events = race()
    next(event for event in events if isinstance(event, Validation))
    events.close()  # type: ignore[attr-defined]
    assert not Path("runs/mine.race").exists() and Path("runs/mine/race/race.json").is_file()
    resumed = [*weft.train("runs/mine", resume=True)]
    assert of_kind(resumed, Finished)[0].step == 44 and isinstance(resumed[-1], Evaluated)


def test_the_run_is_complete_when_further_models_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    train = revision.core.train_with

    def interrupted(recipe: Any, folder: Path, options: Any) -> Iterator[Event]:
        for event in train(recipe, folder, options):
            yield event
            if folder.name == "model-2" and isinstance(event, Validation):
                raise KeyboardInterrupt

    monkeypatch.setattr(revision.core, "train_with", interrupted)
    with pytest.raises(KeyboardInterrupt):
        [*race()]
    assert isinstance(weft.load("runs/mine").translate("bal").text, str)
    assert not Path("runs/mine/race/model-2").exists()


def test_no_time_for_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MIN_PROBE_STEPS", 30)
    events = [*race()]
    assert str(events[0]) == "no race: 16 steps for each candidate, at least 30 are needed"
    assert isinstance(events[0], RaceSkipped) and not Path("runs/mine.race").exists()
    assert weft.load_recipe("runs/mine/recipe.toml").model.encoder.kind == "gru", "the recommended one"


def test_a_time_that_is_far_too_short() -> None:
    with pytest.warns(WeftWarning, match=r"time for only 1 step|learned nothing"):
        events = [*weft.train("pairs.tsv", "runs/mine", minutes=0.2, evaluate=False)]
    assert str(events[0]) == "no race: 1.4 s for each candidate, at least 5 s are needed"


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
def test_a_winner_with_fewer_steps_than_its_probe(monkeypatch: pytest.MonkeyPatch, *, better: bool) -> None:
    """On a machine that has become slow, the model of the race stays, if it is better."""
    speeds = iter([36.0, 36.0, 36.0, 600.0])
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=next(speeds, 600.0)))
    monkeypatch.setattr(plan, "MAX_MODELS", 1)
    values = {"probe": 60.0 if better else 40.0, "mine": 50.0}
    monkeypatch.setattr(models, "score_runs", lambda folders, _: values[folders[0].name])
    events = [*race()]
    steps = of_kind(events, Fitted)[0].steps
    kept = of_kind(events, ProbeKept)
    assert steps < 16 and bool(kept) == better and not Path("runs/mine/race/probe").exists()
    recipe = weft.load_recipe("runs/mine/recipe.toml")
    assert recipe.training.steps == (16 if better else steps)
    assert recipe.training.schedule == ("constant" if better else "cosine")
    assert isinstance(weft.load("runs/mine").translate("bal").text, str)


@pytest.mark.parametrize("ensemble", [60.0, 45.0])
@pytest.mark.parametrize("better", [True, False])
def test_the_ensemble_is_distilled(monkeypatch: pytest.MonkeyPatch, ensemble: float, *, better: bool) -> None:
    """By a function that is given, whatever the ensemble has reached; the student is the run if validation agrees."""
    values = {1: 50.0, 2: ensemble}

    def score(folders: list[Path], _: Any) -> float:
        if folders[0].name == "distilled":
            return 70.0 if better else 45.0
        return values[len(folders)]

    def distill(teachers: models.DistillationInputs) -> Iterator[Event]:
        assert [folder.name for folder in teachers.folders] == ["mine", "model-2"] and teachers.limit.minutes == 100
        recipe = weft.load_recipe(teachers.folders[0] / "recipe.toml").model_copy(update={"seed": 7})
        teachers.out.with_name("distilled.data").mkdir()
        for _ in revision.core.train(recipe, teachers.out):
            pass
        yield from ()

    monkeypatch.setattr(models, "score_runs", score)
    monkeypatch.setattr("weft.pairs.race.run.distill_ensemble", distill)
    lines = [str(event) for event in race()]
    verdict = "70.00, better than" if better else "45.00, not better than"
    assert f"distilled into one model: exact_match {verdict} 50.00 that the best model promises" in lines
    assert weft.load_recipe("runs/mine/recipe.toml").seed == (7 if better else 1)
    assert not Path("runs/mine/race/distilled").exists()
    assert Path("runs/mine/race/model-2").exists() == (ensemble > 50.0), "members of a better ensemble are kept"
    assert Path("runs/mine/race/distilled.data").exists() == better, "what its recipe names is kept"


def test_the_student_has_the_name_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("weft.pairs.distillation.distill.distill", lambda *_, **options: given.update(options) or ())
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").write_text('name = "1 word"\n[data]\ntrain = "copy"\n')
    limit = TimeLimit.from_now(10)
    assert not [*run_module.distill_ensemble(models.DistillationInputs((run,), tmp_path / "out", limit, 60.0))]
    assert 'name="1 word"' in given["changes"] and 8.9 < given["minutes"] < 9.0


def test_the_longest_model_is_the_run_where_validation_pairs_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """One training that uses up the time; a second one only if the speed was mistaken, and then it takes its place."""
    speeds = iter([Speed(step=600.0)])
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: next(speeds, Speed(step=36.0)))
    monkeypatch.setattr(models, "score_runs", lambda folders, _: 90.0 if folders[0].name == "mine" else 10.0)
    change = ["model.encoder.kind=gru", "model.decoder.kind=gru", "training.choose=last"]

    def propose_last(*_: Any) -> list[CandidateRecipe]:
        recipe = weft.recommend("pairs.tsv", changes=[*TINY, *change]).recipe
        return [CandidateRecipe("gru", "GRU", "", recipe, ())]

    monkeypatch.setattr(proposals, "propose", propose_last)
    monkeypatch.setattr(plan, "MAX_MODELS", 6)
    events = [*race()]
    short, long = of_kind(events, ModelScored)
    assert (short.value, long.value, long.chosen) == (90.0, 10.0, True) and not of_kind(events, EnsembleScored)
    assert of_kind(events, Fitted)[0].steps < 40
    assert weft.load_recipe("runs/mine/recipe.toml").training.steps > 120, "not only the 40 of the recipe"
    assert of_kind(events, TimeUsed)[0].reason.startswith("validation pairs cannot tell which of several models")


def test_models_that_copy_and_those_of_formal_languages_have_no_student() -> None:
    """Their students were worse than they are, and a longer training is better than several."""

    def further(name: str) -> models.FurtherModels:
        limit = TimeLimit.from_now(1.0)
        run = PlannedRun(weft.load_recipe(name), Path("runs/mine"), False, limit)
        return models.FurtherModels(run, TrainingOptions(), RaceRecord(run.folder), run_module.distill_ensemble)

    copying, other = further("django"), further("multi30k-transformer")
    assert (copying.distill, copying.planned) == (None, 1)
    assert (further("text2sql").distill, further("text2sql").planned) == (None, 1)
    assert (other.distill, other.planned) == (run_module.distill_ensemble, models.MAX_MODELS)


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
def test_the_speed_of_the_winner_is_that_of_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled and captured once more to measure it."""
    measured = []

    def measure(*_: Any, **__: Any) -> Speed:
        measured.append(Speed(step=36.0, startup=7.0, loss=0.25, sentence=0.125))
        return measured[-1]

    monkeypatch.setattr(fitting, "measure", measure)
    monkeypatch.setattr(probe, "MIN_OBSERVED", 1)
    monkeypatch.setattr(probe.Probe, "step_seconds", 50.0)
    events = race()
    for event in events:
        if isinstance(event, Fitted):
            break
    events.close()  # type: ignore[attr-defined]
    assert len(measured) == 3, "of the candidates"
    assert isinstance(event, Fitted) and event.step_seconds == 50.0
    record = RaceRecord(Path("runs/mine"))
    record.content = json.loads(Path("runs/mine/race/race.json").read_text("utf-8"))
    assert record.speed == Speed(step=50.0, startup=0.0, loss=0.25, sentence=0.125)


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
def test_the_winner_has_the_smaller_batches_of_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the batch gives 11 of 40 steps in the time of the winner, all of it 6."""
    monkeypatch.setattr(f"{__name__}.TINY", [*TINY, "training.batch_tokens=512"])
    monkeypatch.setattr(plan, "MIN_PROBE_STEPS", 2)

    def measure(run: Any, **_: Any) -> Speed:
        return Speed(step=float(run.context.settings.batch_tokens))

    monkeypatch.setattr(fitting, "measure", measure)
    events = [*race()]
    assert "GRU, batches of 256 tokens" in of_kind(events, RaceStarted)[0].candidates["gru"]
    recipe, text = weft.load_recipe("runs/mine/recipe.toml"), Path("runs/mine/recipe.toml").read_text("utf-8")
    assert recipe.training.batch_tokens == 256
    assert text.count("# batch: ") == 1 and "# batch: 256 tokens (smaller ones" in text


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
def test_a_further_model_keeps_to_the_time_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is revised if the machine becomes slower, so that the student has its share of the time."""
    train, plans = revision.core.train_with, []

    def watched(recipe: Any, folder: Path, options: Any) -> Iterator[Event]:
        for event in train(recipe, folder, options):
            if folder.name == "model-2" and isinstance(event, Fitted):
                plans.append(event)
            yield event

    monkeypatch.setattr(revision.core, "train_with", watched)
    events = [*race()]
    record = json.loads(Path("runs/mine/race/race.json").read_text("utf-8"))
    [finished] = of_kind(events, Finished)
    assert plans[0].share_seconds == pytest.approx(plan.MODEL_SAFETY * finished.seconds) and len(record["models"]) == 2
