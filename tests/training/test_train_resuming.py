"""A run that was stopped or killed at any moment ends, once resumed, as if it had never been stopped."""

import json
import random
import shutil
import signal
from itertools import count

import pytest
import torch

from fixtures.training_runs import (
    EVERYTHING,
    PLAIN,
    TRANSFORMER,
    VARIANTS,
    contents,
)
from weft.data.pairs import Pair
from weft.errors import CheckpointError, RecipeError
from weft.recipe import load_recipe
from weft.runs.weights import read_tensors
from weft.training import train as training
from weft.training import validation
from weft.training.events import Finished, Saved, Step
from weft.training.train import train
from weft.translation.load import load

QUICK = ("plain", "never_saved", "prefix")
every_variant = pytest.mark.parametrize(
    "changes",
    [pytest.param(changes, marks=() if changes["name"] in QUICK else pytest.mark.slow) for changes in VARIANTS],
    ids=lambda changes: changes["name"],
)


pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


def check_loads(path):
    """A run can be used from its first checkpoint on; before that, its initial weights are there and refused."""
    try:
        assert load(path).score([Pair("a b", "b a")])[0].log_probability < 0
    except CheckpointError as error:
        trained = next(iter(path.glob("adapters/*/*.safetensors")), path / "model.safetensors")
        assert "not trained yet" in str(error) and read_tensors(trained).metadata["weights"] == "initial"


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory):
    """The contents of a run that was never stopped."""
    found = {}

    def straight(changes):
        key = json.dumps(changes, sort_keys=True)
        if key not in found:
            path = tmp_path_factory.mktemp("straight") / "run"
            assert isinstance(list(train(tiny(changes), path))[-1], Finished)
            found[key] = contents(path)
        return found[key]

    return straight


@pytest.fixture(scope="module")
def adapting(tiny, tmp_path_factory):
    """Settings of a run that trains adapters."""
    path = tmp_path_factory.mktemp("start") / "run"
    list(train(tiny({**TRANSFORMER, "training.steps": 2}), path))
    lora = {"training.start": str(path), "training.lora.rank": 2, "training.average": 2}
    return {**PLAIN, **TRANSFORMER, "name": "adapters", **lora}


class TestResuming:
    @every_variant
    def test_after_any_event(self, tiny, tmp_path, straight, changes):
        """The reader stops listening after the n-th event, for every n."""
        wanted = straight(changes)
        for stop in count(1):
            path = tmp_path / str(stop)
            events = train(tiny(changes), path)
            seen = [event for event, _ in zip(events, range(stop), strict=False)]
            events.close()
            check_loads(path)
            list(train(tiny(changes), path, resume=True))
            assert contents(path) == wanted, f"stopped after {seen[-1]}"
            if isinstance(seen[-1], Finished):
                break
            shutil.rmtree(path)

    def test_many_times(self, tiny, tmp_path, straight):
        path = tmp_path / "run"
        next(train(tiny(EVERYTHING), path))
        for seen in (4, 6, 5, 9):
            events = train(tiny(EVERYTHING), path, resume=True)
            list(zip(events, range(seen), strict=False))
            events.close()
        list(train(tiny(EVERYTHING), path, resume=True))
        assert contents(path) == straight(EVERYTHING)

    def test_with_random_numbers_drawn_in_between(self, tiny, tmp_path, straight):
        path = tmp_path / "run"
        events = train(tiny(EVERYTHING), path)
        list(zip(events, range(8), strict=False))
        events.close()
        torch.manual_seed(99)
        events = train(tiny(EVERYTHING), path, resume=True)
        list(events)
        assert contents(path) == straight(EVERYTHING)

    def test_a_finished_run_stays_as_it_is(self, tiny, tmp_path, straight):
        path = tmp_path / "run"
        list(train(tiny(PLAIN), path))
        metrics = json.loads((path / "metrics.json").read_text("utf-8"))
        events = list(train(tiny(PLAIN), path, resume=True))
        assert not any(isinstance(event, Step) for event in events) and events[-1].reason == "steps"
        assert contents(path) == straight(PLAIN)
        assert json.loads((path / "metrics.json").read_text("utf-8")) == metrics

    def test_the_result_is_whole_even_if_the_last_validation_was_before(self, tiny, tmp_path):
        path = tmp_path / "run"
        events = train(tiny({**PLAIN, "training.save_every": 4}), path)
        for event in events:
            if isinstance(event, Saved):
                break
        events.close()
        list(train(tiny({**PLAIN, "training.save_every": 4}), path, resume=True))
        assert "last_validation" in json.loads((path / "metrics.json").read_text("utf-8"))

    def test_steps_may_be_raised(self, tiny, tmp_path):
        path = tmp_path / "run"
        list(train(tiny({"training.steps": 3}), path))
        events = list(train(tiny({"training.steps": 5}), path, resume=True))
        assert [event.step for event in events if isinstance(event, Step)] == [4, 5]
        list(train(tiny({"training.steps": 5}), tmp_path / "whole"))
        first, second = (contents(tmp_path / name)[0] for name in ("run", "whole"))
        assert first["model.safetensors"] == second["model.safetensors"]

    def test_what_a_service_shows_may_change(self, tiny, tmp_path):
        path = tmp_path / "run"
        list(train(tiny({"training.steps": 2}), path))
        changes = {"training.steps": 2, "serve.states": 3, "serve.source": "en", "serve.examples": False}
        list(train(tiny(changes), path, resume=True))
        serve = load_recipe(path / "recipe.toml").serve
        assert (serve.states, serve.source, serve.examples) == (3, "en", False)

    def test_patience_may_be_raised(self, tiny, tmp_path, monkeypatch):
        scores = iter([5.0, 4.0, 3.0, 2.0, 1.0])
        monkeypatch.setattr(
            training,
            "RecipeValidation",
            lambda *_: lambda model: validation.ValidationScores(1.0, 1.0, {}, next(scores, 0.0)),
        )
        path = tmp_path / "run"
        changes = {"training.steps": 6, "training.validate_every": 1, "training.patience": 1}
        assert list(train(tiny(changes), path))[-1].reason == "patience"
        events = list(train(tiny({**changes, "training.patience": 0}), path, resume=True))
        assert (events[-1].step, events[-1].reason) == (6, "steps")

    @pytest.mark.parametrize(
        ("name", "value", "group"),
        [
            ("seed", 5, "seed"),
            ("data.train_size", 100, "data"),
            ("tokenizer.kind", "character", "tokenizer"),
            ("model.dropout", 0.4, "model"),
            ("training.batch_tokens", 32, "training"),
            ("training.optimizer", "sgd", "training"),
            ("search.size", 3, "search"),
            ("evaluation.metrics", ["chrf"], "evaluation"),
        ],
    )
    def test_other_settings_are_refused(self, tiny, finished, name, value, group):
        before = (finished / "log.jsonl").read_bytes()
        given = {"training.steps": 2, "training.validate_every": 1, name: value}
        with pytest.raises(RecipeError) as caught:
            next(train(tiny(given), finished, resume=True))
        message = str(caught.value)
        assert (
            message.startswith(f"resume=True: {group} differs from {finished / 'recipe.toml'}; ")
            and "\n" not in message
        )
        assert (finished / "log.jsonl").read_bytes() == before

    @pytest.mark.parametrize("name", ["precision", "compile"])
    def test_how_products_are_made_may_change(self, tiny, tmp_path, name):
        path = tmp_path / "run"
        list(train(tiny({**TRANSFORMER, "training.steps": 2}), path))
        other = {"precision": "bf16", "compile": "off"}[name]
        events = list(train(tiny({**TRANSFORMER, "training.steps": 4, f"training.{name}": other}), path, resume=True))
        assert [event.step for event in events if isinstance(event, Step)] == [3, 4]

    def test_a_stack_of_another_family_is_refused(self, tiny, finished):
        given = {**TRANSFORMER, "training.steps": 2, "training.validate_every": 1}
        with pytest.raises(RecipeError, match=r"^resume=True: model differs from "):
            next(train(tiny(given), finished, resume=True))

    def test_without_a_run_nothing_is_made(self, tiny, tmp_path):
        with pytest.raises(CheckpointError):
            next(train(tiny(), tmp_path / "run", resume=True))
        assert not list(tmp_path.iterdir())


# Kills. What is killed is a process of its own, and SIGKILL it cannot catch.


def killed_then_resumed(run, changes, path, **kill):
    """Kill a training run, check what it left, resume it; whether there was anything left to kill."""
    code, message = run(changes, path, **kill)
    assert code in (0, -signal.SIGKILL), f"{kill}: {message}"
    if not path.exists():
        assert code == -signal.SIGKILL
        code_again, message = run(changes, path)
    else:
        check_loads(path)
        code_again, message = run(changes, path, resume=True)
    assert code_again == 0, f"{kill}: {message}"
    return code == -signal.SIGKILL


def check_every_call(run, changes, folder, expected, functions, calls):
    """Kill at the n-th call of some functions, for every n; what went wrong, all together."""
    wrong = []
    for call in calls:
        path = folder / str(call)
        try:
            alive = not killed_then_resumed(run, changes, path, functions=functions, call=call)
            if contents(path) != expected:
                wrong.append(f"call {call}: the resumed run ended otherwise")
        except Exception as error:
            wrong.append(f"call {call}: {str(error)[-300:]}")
            alive = False
        shutil.rmtree(path, ignore_errors=True)
        if alive:
            break
    assert not wrong, "\n".join(wrong)


RENAMES = ("rename", "replace", "save")
CHANGES = ("rename", "replace", "mkdir", "unlink", "rmdir", "fsync")


@pytest.mark.slow
def test_killed_at_every_rename_of_a_file(train_elsewhere, tmp_path, straight):
    changes = {**PLAIN, "training.steps": 2}
    check_every_call(train_elsewhere, changes, tmp_path, straight(changes), RENAMES, range(1, 1000))


@pytest.mark.slow
def test_killed_at_some_changes_of_the_folder(train_elsewhere, tmp_path, straight):
    calls = sorted(random.Random(5).sample(range(1, 160), 8))
    check_every_call(train_elsewhere, EVERYTHING, tmp_path, straight(EVERYTHING), CHANGES, calls)


@pytest.mark.slow
@every_variant
def test_killed_at_every_change_of_the_folder(train_elsewhere, tmp_path, straight, changes):
    check_every_call(train_elsewhere, changes, tmp_path, straight(changes), CHANGES, range(1, 1000))


@pytest.mark.slow
def test_adapters_killed_at_every_change_of_the_folder(train_elsewhere, tmp_path, straight, adapting):
    check_every_call(train_elsewhere, adapting, tmp_path, straight(adapting), CHANGES, range(1, 1000))


def test_killed_at_random_moments(train_elsewhere, tmp_path, straight):
    dice = random.Random()
    for number in range(3):
        delay = dice.uniform(0.0, 0.6)
        path = tmp_path / str(number)
        killed_then_resumed(train_elsewhere, EVERYTHING, path, after=delay)
        assert contents(path) == straight(EVERYTHING), f"killed after {delay} s"


@pytest.mark.slow
@pytest.mark.parametrize("kills", range(20))
def test_killed_again_and_again(train_elsewhere, tmp_path, straight, kills):
    dice = random.Random()
    path = tmp_path / "run"
    delays = [dice.uniform(0.0, 0.5) for _ in range(3)]
    for delay in delays:
        code, message = train_elsewhere(EVERYTHING, path, resume=path.exists(), after=delay)
        assert code in (0, -signal.SIGKILL), f"{delays}: {message}"
        if path.exists():
            check_loads(path)
    code, message = train_elsewhere(EVERYTHING, path, resume=path.exists())
    assert code == 0, f"{delays}: {message}"
    assert contents(path) == straight(EVERYTHING), f"killed after {delays} s"
