"""`weft.train`, `weft.recommend` and `weft.tune` on pairs: what the commands do, from Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import weft
from fixtures.tuning_runners import InlineRunner
from weft.errors import RecipeError, WeftWarning
from weft.pairs import outcome
from weft.pairs import train as pairs_train
from weft.pairs.time_limit import fitting
from weft.pairs.time_limit.budget import Speed
from weft.pairs.train import Evaluated
from weft.training.events import Finished, Fitted, Started

PAIRS = [(f"w{'aeiou'[n % 5]}{'bdfgk'[n // 5 % 5]}{'lmnrs'[n // 25]}", f"{n % 5} {n // 5}") for n in range(60)]
SMALL = [
    *("model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "training.steps=3"),
    *("training.validate_every=2", "training.batch_tokens=64", "training.device=cpu", "search.size=1"),
]
SETTINGS = [part for change in SMALL for part in ("--set", change)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))


def _log(run: str) -> list[dict[str, Any]]:
    """The logged events, without durations."""
    lines = map(json.loads, Path(run, "log.jsonl").read_text("utf-8").splitlines())
    timed = ("seconds", "data_wait", "path", "step_seconds", "validation_seconds", "closing_seconds")
    return [{name: value for name, value in line.items() if name not in timed} for line in lines]


def _command(*arguments: str) -> None:
    from typer.testing import CliRunner

    from weft.apps.cli import app

    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("minutes", [None, 100])
def test_the_whole_way_is_that_of_the_command(minutes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recipe, comments included, the same events, and a run that translates and is evaluated."""
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=2_000.0))  # time for one or two steps
    monkeypatch.setattr("weft.pairs.time_limit.budget.MIN_STEPS", 1)
    limit = [] if minutes is None else ["--minutes", str(minutes)]
    _command("train", "pairs.tsv", "--out", "runs/command", *limit, *SETTINGS)
    events = [*weft.train("pairs.tsv", "runs/python", minutes=minutes, changes=SMALL)]
    texts = [Path(run, "recipe.toml").read_text("utf-8") for run in ("runs/command", "runs/python")]
    assert texts[0] == texts[1] and texts[0].startswith("# pairs: 60 (pairs.tsv)\n")
    assert _log("runs/command") == _log("runs/python")
    assert any(isinstance(event, Fitted) for event in events) == (minutes is not None)
    *_, finished, evaluated = events
    assert isinstance(finished, Finished) and isinstance(evaluated, Evaluated)
    assert str(evaluated).splitlines()[1].startswith("Test set: ")
    card = Path("runs/python/README.md").read_text("utf-8")
    assert "\n- exports to: ONNX\n- no export to CTranslate2: model." in card and card.count("exports to") == 1
    run = weft.load("runs/python")
    assert isinstance(run.translate("wabl").text, str)
    assert weft.evaluate(run).pairs == evaluated.outcome.summary.items
    assert weft.compare("runs/command", "runs/python").runs == ["runs/command", "runs/python"]
    assert weft.report("runs/python").save("report.html").is_file()


def test_the_recommendation_is_what_is_trained() -> None:
    recommendation = weft.recommend("pairs.tsv", minutes=10, changes=SMALL)
    assert recommendation.recipe.training.steps == 3 and "task: " in str(recommendation)
    like = weft.recommend("pairs.tsv", like="g2p").recipe
    assert like.model == weft.load_recipe("g2p").model and like.data.train == "pairs.tsv"
    started = next(weft.train("pairs.tsv", "run", changes=SMALL))
    assert isinstance(started, Started)
    saved = weft.load_recipe("run/recipe.toml")
    assert saved.training == weft.recommend("pairs.tsv", changes=SMALL).recipe.training
    assert [*weft.train("run", resume=True)][-2].step == 3, "and it is evaluated, as a run on pairs is"


@pytest.mark.parametrize(
    "given",
    [
        PAIRS,
        [weft.Pair("a\tb", "c\nd"), *PAIRS],
        [("word", "phones"), *PAIRS],  # no header
        (source for source in PAIRS),
    ],
    ids=["a list", "tabs and lines", "like a header", "a generator"],
)
def test_pairs_of_a_program(given: Any) -> None:
    pairs = [*given]
    events = weft.train(iter(pairs), "runs/mine", changes=SMALL, evaluate=False)
    started = next(events)
    events.close()
    rows = [json.loads(line) for line in Path("runs/mine.jsonl").read_text("utf-8").splitlines()]
    assert [(row["source"], row["target"]) for row in rows] == [tuple(pair[:2]) for pair in pairs]
    assert isinstance(started, Started) and weft.load_recipe("runs/mine/recipe.toml").name == "mine"
    assert f"pairs: {len(pairs)} (" in Path("runs/mine/recipe.toml").read_text("utf-8")


def test_word_links_of_a_program() -> None:
    pairs = [weft.Pair(f"a{n} b{n}", f"c{n} d{n}", ((0, 0), (1, 1))) for n in range(60)]
    next(weft.train(pairs, "run", changes=SMALL))
    from weft.data.preparation import read_corpus

    assert next(iter(read_corpus(weft.load_recipe("run/recipe.toml"), "train"))).links == ((0, 0), (1, 1))


def test_two_files_and_columns() -> None:
    Path("a.x").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    Path("a.y").write_text("".join(f"{target}\n" for _, target in PAIRS))
    recipes = [weft.recommend(given).recipe for given in ("pairs.tsv", ("a.x", "a.y"))]
    assert recipes[0].model_dump(exclude={"name", "data"}) == recipes[1].model_dump(exclude={"name", "data"})
    swapped = weft.recommend("pairs.tsv", columns=(2, 1)).recipe.data.train
    assert (swapped.source, swapped.target) == ([2], [1])  # type: ignore[union-attr]


def test_tuning_on_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.pairs.time_limit.speed.MIN_UPDATES", 2)
    monkeypatch.setattr("weft.apps.tuning.tune.MEASURED_SECONDS", (0.0, 0.0))
    monkeypatch.setattr("weft.apps.tuning.tune.find_candidates", _two_candidates())
    for given in ("pairs.tsv", PAIRS):
        *_, tuned = weft.tune(given, "runs/tuned", minutes=5, changes=SMALL, runner=InlineRunner())
        assert type(tuned).__name__ == "Tuned" and Path("runs/tuned/best.toml").is_file()
        if given is PAIRS:
            assert type([*weft.tune(PAIRS, "runs/tuned", minutes=5, changes=SMALL, runner=InlineRunner())][-1])
        Path("runs/tuned").rename(f"runs/{len(given)}")


def _two_candidates() -> Callable[[weft.Recipe], Sequence[Any]]:
    from weft.apps.tuning.tune import find_candidates

    return lambda recipe: find_candidates(recipe)[:2]


class TestWhatIsNotEvaluated:
    def test_a_run_that_cannot_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise weft.WeftError("diverged")

        monkeypatch.setattr(pairs_train, "evaluate_run", refuse)
        with pytest.warns(WeftWarning, match="^not evaluated: diverged$"):
            events = [*weft.train("pairs.tsv", changes=SMALL)]
        assert isinstance(events[-1], Finished) and Path("runs/pairs").is_dir()

    def test_a_recipe(self) -> None:
        recipe = weft.recommend("pairs.tsv", changes=SMALL).recipe
        assert isinstance([*weft.train(recipe, "plain")][-1], Finished)
        *_, last = weft.train(recipe, "judged", evaluate=True)
        assert isinstance(last, Evaluated) and isinstance(last.outcome, outcome.RunOutcome)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": "gramar"}, "gramar: neither a file of pairs nor a recipe has this name; did you mean 'grammar'?"),
        ({"recipe": "none.tsv"}, "none.tsv: no such file or folder; "
         "give a file of pairs, two parallel files or a folder"),
        ({"recipe": "g2p", "like": "lstm"}, "like='lstm': needs a file of pairs; g2p is not one"),
        ({"recipe": "g2p", "minutes": 0}, "minutes 0: expected a number above 0, at most 1,000,000"),
        ({"recipe": [], "out": "x"}, "pairs: none were given"),
        ({"recipe": PAIRS, "columns": (1, 2)}, "columns: only a table has columns; leave them out"),
        ({"recipe": "x", "resume": True, "minutes": 1},
         "minutes: a resumed run keeps its number of steps; leave minutes out"),
        ({"recipe": "g2p", "accept_new_data": True},
         "accept_new_data: is for a run that is resumed; add resume=True, or leave it out"),
    ],
)  # fmt: skip
def test_refused_in_the_words_of_python(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.WeftError) as refusal:
        next(weft.train(**arguments))
    assert str(refusal.value) == message
    assert not Path("runs").exists()


def test_pairs_of_another_call_are_not_replaced() -> None:
    next(weft.train(PAIRS, "run", changes=SMALL))
    with pytest.raises(RecipeError, match=r"training\.stps"):
        next(weft.train(PAIRS, "other", changes="training.stps=2"))
    assert Path("run.jsonl").is_file() and not Path("other.jsonl").exists()
    Path("other.jsonl").write_text("mine\n")
    with pytest.raises(weft.WeftError, match=r"other\.jsonl: already exists; remove it, or choose another out$"):
        next(weft.train(PAIRS, "other", changes=SMALL))
