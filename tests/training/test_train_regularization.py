"""Regularized runs, and the weights that a run delivers: trained, interrupted, resumed, loaded and used."""

import json
import subprocess
import sys
from itertools import count, islice

import pytest
import torch

from fixtures.training_runs import LANGUAGE, PLAIN, TRANSFORMER, contents
from oracles import regularization as oracle
from weft.data.pairs import Pair
from weft.errors import RecipeError
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.weights import model_tensors, read_tensors
from weft.training.events import Averaged, Finished, Step, Validation
from weft.training.train import train
from weft.translation.load import load

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
MODELS = {
    "lstm": {**PLAIN, "model.dropout": 0.3},
    "hard": {**PLAIN, "model.dropout": 0.3, "model.attention.hard": "monotonic"},
    "transformer": {**PLAIN, **TRANSFORMER, "model.dropout": 0.3},
    "language": {**LANGUAGE, "model.dropout": 0.3},
}
ALL = {"training.consistency": 5.0, "training.ema": 0.5, "training.word_dropout": 0.2, "training.choose": "last"}
FINAL = {"training.steps": 5, "training.validate_every": 2}


def settings_of(name):
    """All of them together, so far as a model has a source."""
    left_out = "training.word_dropout" if name == "language" else None
    return {**MODELS[name], **{setting: value for setting, value in ALL.items() if setting != left_out}}


def events_of(recipe, path, **options):
    return list(train(recipe, path, **options))


def use(path):
    """Log-probabilities of a pair and, of a model with a source, an output."""
    model = load(path)
    score = model.score([Pair("a b", "b a")])[0].log_probability
    return score, None if model.recipe.source_role == "none" else model.translate(["a b"])[0].text


@pytest.mark.parametrize("name", MODELS)
def test_a_run_that_was_stopped_anywhere_ends_as_one_that_was_not(tiny, tmp_path, name):
    recipe = tiny(settings_of(name))
    straight = tmp_path / "straight"
    assert isinstance(events_of(recipe, straight)[-1], Finished)
    tensors, state, *log = contents(straight)
    assert any(key.startswith("ema.") for key in tensors["training/step-5/optimizer.safetensors"][1])
    for stop in count(1):
        path = tmp_path / str(stop)
        events = train(recipe, path)
        *_, last_event = islice(events, stop)
        events.close()
        events_of(recipe, path, resume=True)
        found, resumed, *found_log = contents(path)
        assert found_log == log, f"stopped after {last_event}"
        if isinstance(last_event, Step) and last_event.step == 5:  # its checkpoint was written before its validation
            used = ["model.safetensors", *(f"training/step-5/{part}.safetensors" for part in ("weights", "optimizer"))]
            assert all(found[file] == tensors[file] for file in used)
        else:
            assert (found, resumed) == (tensors, state), f"stopped after {last_event}"
        if isinstance(last_event, Finished):
            break
    assert use(path) == use(straight)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("setting", ALL)
def test_each_of_them_changes_the_delivered_weights(tiny, tmp_path, name, setting):
    if name == "language" and setting == "training.word_dropout":
        with pytest.raises(RecipeError, match=r"training\.word_dropout: 0\.2 is of source tokens"):
            tiny({**MODELS[name], setting: ALL[setting]})
        return
    paths = []
    for number, changes in enumerate(({}, {setting: ALL[setting]})):
        paths.append(tmp_path / str(number))
        validate = {"training.validate_every": 4, "training.steps": 5}
        events_of(tiny({**MODELS[name], **validate, **changes}), paths[-1])
    plain, regularized = (read_tensors(path / "model.safetensors").tensors for path in paths)
    assert plain.keys() == regularized.keys()
    assert not all(torch.equal(plain[key], regularized[key]) for key in plain)
    assert use(paths[1])[0] < 0


def test_loading_in_another_process(tiny, tmp_path):
    path = tmp_path / "run"
    events_of(tiny(settings_of("transformer")), path)
    command = [sys.executable, "-m", "weft", "translate", str(path), "--device", "cpu"]
    done = subprocess.run(command, input="a b\n", capture_output=True, text=True, check=True)
    assert done.stdout == use(path)[1] + "\n"


class TestMovingAverage:
    def test_its_weights_are_validated_and_delivered(self, tiny, tmp_path):
        """The same updates as without, and the average of their weights by its equation."""
        every_step = {**MODELS["transformer"], **FINAL, "training.validate_every": 1, "training.average": 9}
        events_of(tiny({**every_step, "training.choose": "best"}), tmp_path / "plain")
        averaged = tiny({**every_step, "training.choose": "last", "training.ema": 0.5})
        events = events_of(averaged, tmp_path / "averaged")
        runs = RunFolder(tmp_path / "plain"), RunFolder(tmp_path / "averaged")
        ends = [run.read_checkpoint().weights for run in runs]
        assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
        events_of(tiny({**every_step, "training.steps": 1}), tmp_path / "one")
        initial = model_tensors(build_untrained(averaged))
        name = "output.bias_V"
        steps = [initial[name], *(read_tensors(runs[0].best_file(step)).tensors[name] for step in range(1, 6))]
        expected = [oracle.moving_average(values, 0.5) for values in zip(*(s.tolist() for s in steps), strict=True)]
        delivered = read_tensors(runs[1].model)
        assert delivered.tensors[name].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-7)
        validation = [event for event in events if isinstance(event, Validation)][-1]
        assert json.loads(delivered.metadata["validation"])["loss"] == validation.loss
        assert delivered.metadata["weights"] == "last" and delivered.metadata["step"] == "5"

    def test_with_the_mean_of_the_best(self, tiny, tmp_path):
        changes = {**MODELS["lstm"], "training.validate_every": 1, "training.average": 3, "training.ema": 0.5}
        events = events_of(tiny(changes), tmp_path / "run")
        assert any(isinstance(event, Averaged) for event in events)
        assert len(list((tmp_path / "run/training/best").iterdir())) == 3

    def test_from_another_run_with_frozen_weights_and_adapters(self, tiny, tmp_path):
        start = tmp_path / "start"
        events_of(tiny({**MODELS["transformer"], **FINAL}), start)
        base = RunFolder(start).read_model().tensors
        more = {**MODELS["transformer"], **FINAL, "training.start": str(start), "training.ema": 0.5}
        frozen, adapted = tmp_path / "frozen", tmp_path / "adapted"
        events_of(tiny({**more, "training.freeze": ["encoder.*"]}), frozen)
        weights = RunFolder(frozen).read_model().tensors
        same = {name: torch.equal(weights[name], base[name]) for name in base}
        assert all(same[name] for name in same if name.startswith("encoder.")) and not same["output.bias_V"]
        events_of(tiny({**more, "training.lora.rank": 2}), adapted)
        assert all(torch.equal(base[name], tensor) for name, tensor in RunFolder(adapted).read_model().tensors.items())
        assert use(adapted)[0] != use(start)[0]


def build_untrained(recipe):
    """The model of a recipe before its first update."""
    from weft.data.preparation import prepare
    from weft.training.train import build_initial_model

    return build_initial_model(recipe, prepare(recipe).tokenizers, torch.device("cpu"))


class TestChoice:
    """``training.choose``; with scores that are given: tests/training/test_trainer.py."""

    def run(self, tiny, path, **changes):
        used = {"steps": 9, "validate_every": 2, "learning_rate": 0.5, "warmup": 0, **changes}
        events = events_of(tiny({**MODELS["lstm"], **{f"training.{name}": used[name] for name in used}}), path)
        return events, json.loads((path / "metrics.json").read_text("utf-8")), RunFolder(path)

    def test_last(self, tiny, tmp_path):
        events, metrics, run = self.run(tiny, tmp_path / "run", choose="last", average=3)
        validations = [event for event in events if isinstance(event, Validation)]
        assert [event.step for event in validations] == [2, 4, 6, 8, 9], "the delivered weights are validated"
        finished = events[-1]
        assert (finished.weights, finished.weight_steps) == ("last", (9,))
        assert metrics["weights"] == "last" and metrics["validation"]["loss"] == validations[-1].loss
        assert not any(isinstance(event, Averaged) for event in events)
        checkpoint, delivered = run.read_checkpoint().weights, run.read_model().tensors
        assert all(torch.equal(checkpoint[name], delivered[name]) for name in checkpoint)
        assert "- weights: step 9; validation loss" in run.card.read_text("utf-8")

    def test_best_and_average(self, tiny, tmp_path):
        for choose in ("best", "average"):
            events, metrics, run = self.run(tiny, tmp_path / choose, choose=choose, average=3)
            assert any(isinstance(event, Averaged) for event in events) is (choose == "average")
            assert metrics["weights"] in (("best",) if choose == "best" else ("best", "mean"))
            if choose == "best":
                best, delivered = read_tensors(run.best_file(metrics["best_step"])).tensors, run.read_model().tensors
                assert all(torch.equal(best[name], delivered[name]) for name in best)

    def test_the_default_is_the_better_of_the_best_and_the_mean(self, tiny, tmp_path):
        for name, changes in (("default", {}), ("average", {"choose": "average"})):
            self.run(tiny, tmp_path / name, average=3, **changes)
        assert contents(tmp_path / "default") == contents(tmp_path / "average")

    def test_last_with_patience_and_without_a_warning(self, tiny, tmp_path, recwarn):
        events, metrics, _ = self.run(tiny, tmp_path / "run", choose="last", patience=1, steps=90)
        assert events[-1].reason == "patience" and metrics["weight_steps"] == [events[-1].step] and events[-1].step < 90
        recwarn.clear()
        load_run(tmp_path / "run")
        assert not [str(warning.message) for warning in recwarn if "never validated" in str(warning.message)]

    def test_last_without_validations(self, tiny, tmp_path):
        events, metrics, _ = self.run(tiny, tmp_path / "run", choose="last", validate_every=0)
        assert events[-1].weights == "last" and metrics["validation"] is None
