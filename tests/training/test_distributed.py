"""Several workers: the same run as one process makes, sharded or not, and resumed with any number of them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.errors import RecipeError, TrainingError
from weft.runs.weights import read_tensors
from weft.training import distributed
from weft.training.distributed import SINGLE_PROCESS, Workers, full_tensor, seed_rng, shard_like

sys.path.insert(0, str(Path(__file__).parent))
from fixtures.several import Several

TINY = {
    "data.train": "copy",
    "data.train_size": 90,
    "data.valid_size": 11,
    "data.options.length": 5,
    "data.options.symbols": 7,
    "tokenizer.kind": "word",
    "model.dropout": 0.3,
    "training.batch_tokens": 30,
    "training.accumulate": 4,
    "training.optimizer": "sgd",
    "training.learning_rate": 0.5,
    "training.momentum": 0.5,
    "training.warmup": 0,
    "training.schedule": "constant",
    "training.steps": 4,
    "training.validate_every": 2,
    "training.save_every": 2,
    "training.device": "cpu",
}
STACK = {"kind": "transformer", "layers": 2, "hidden": 14, "heads": 2, "feed_forward": 22}
LSTM = {"model.embedding": 11, "model.encoder.hidden": 14, "model.decoder.hidden": 14}
TRANSFORMER = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
TRANSFORMER |= {"model.embedding": 14, "model.tie": "all", "tokenizer.joint": True}
PREFIX = {f"model.decoder.{name}": value for name, value in STACK.items()}
PREFIX |= {"model.embedding": 14, "model.kind": "prefix_lm"}
LANGUAGE = {"model.kind": "language_model", **LSTM}
MODELS = {"lstm": LSTM, "transformer": TRANSFORMER, "prefix": PREFIX, "language": LANGUAGE}


@pytest.fixture(scope="module")
def several():
    made = Several()
    yield made
    made.close()


@pytest.fixture(scope="module")
def trained(several, tmp_path_factory):
    """What workers saw, and the folder they left: ``trained("lstm", 2, {...})``; the same run is made once."""
    made = {}
    folder = tmp_path_factory.mktemp("runs")

    def trained(model, count, changes=None):
        key = (model, count, json.dumps(changes or {}, sort_keys=True))
        if key not in made:
            out = folder / f"run-{len(made)}"
            made[key] = several(count, settings(model, changes), out), out
        return made[key]

    return trained


def settings(model, changes=None):
    chosen = {**TINY, **MODELS[model], **(changes or {})}
    return [f"{name}={json.dumps(value)}" for name, value in chosen.items()]


def weights(out):
    [step] = (out / "training").glob("step-*")
    return read_tensors(step / "weights.safetensors").tensors


def moments(out):
    [step] = (out / "training").glob("step-*")
    return read_tensors(step / "optimizer.safetensors").tensors


def assert_near(left, right, tolerance=2e-5):
    assert left.keys() == right.keys()
    for name in left:
        assert torch.allclose(left[name], right[name], atol=tolerance, rtol=1e-4), name


def assert_same_run(one, other):
    """Losses, norms and decisions as good as equal, and so the weights; random states are equal."""
    (seen, out), (seen_too, out_too) = one, other
    flat, flat_too = np.array([step for step in seen[0] if len(step) == 4]), None
    for each in seen_too:
        flat_too = np.array([step for step in each if len(step) == 4])
        assert np.allclose(flat, flat_too, rtol=1e-5, atol=1e-6)
    assert [step[2] for step in seen[0] if len(step) == 3] == [step[2] for step in seen_too[0] if len(step) == 3]
    assert_near(weights(out), weights(out_too))
    assert_near(read_tensors(out / "model.safetensors").tensors, read_tensors(out_too / "model.safetensors").tensors)
    left, right = moments(out), moments(out_too)
    assert torch.equal(left.pop("random.cpu"), right.pop("random.cpu"))
    assert_near(left, right)


class TestTheSameRun:
    @pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
    def test_with_dropout_in_any_number(self, trained, count):
        assert_same_run(trained("lstm", 1), trained("lstm", count))

    def test_batches_that_do_not_divide(self, trained):
        odd = {"training.accumulate": 3}
        assert_same_run(trained("lstm", 1, odd), trained("lstm", 2, odd))

    def test_a_worker_without_a_batch(self, trained):
        """A single batch an update draws from one stream as ever: the first worker's."""
        single = {"training.accumulate": 1, "training.steps": 2}
        assert_same_run(trained("lstm", 1, single), trained("lstm", 2, single))

    def test_every_worker_sees_the_same(self, trained):
        seen, _ = trained("lstm", 4)
        assert all(each == seen[0] for each in seen)

    def test_is_bit_for_bit_repeatable(self, several, trained, tmp_path):
        again = several(2, settings("lstm"), tmp_path / "again"), tmp_path / "again"
        first = trained("lstm", 2)
        assert again[0] == first[0]
        left, right = weights(again[1]), weights(first[1])
        assert all(torch.equal(left[name], right[name]) for name in left)

    @pytest.mark.slow
    @pytest.mark.parametrize("model", ["transformer", "prefix", "language"])
    def test_every_model(self, trained, model):
        assert_same_run(trained(model, 1), trained(model, 2))

    def test_scheduled_sampling(self, trained):
        sampled = {"training.forcing": "scheduled", "training.sampling": 1.0, "training.steps": 2}
        assert_same_run(trained("lstm", 1, sampled), trained("lstm", 2, sampled))

    def test_only_the_first_writes_the_log(self, trained):
        _, out = trained("lstm", 4)
        events = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
        assert [event["step"] for event in events if event["event"] == "saved"] == [2, 4]
        assert [event["step"] for event in events if event["event"] == "validation"] == [2, 4]
        assert len([event for event in events if event["event"] == "finished"]) == 1


class TestResumed:
    @pytest.mark.parametrize(("before", "after"), [(2, 1), pytest.param(1, 3, marks=pytest.mark.slow), (3, 2)])
    def test_with_another_number_of_workers(self, several, trained, tmp_path, before, after):
        out = tmp_path / "run"
        several(before, settings("lstm"), out, until=2)
        [seen] = {json.dumps(each) for each in several(after, settings("lstm"), out, resume=True)}
        assert json.loads(seen)[0][0] == 3
        assert_near(weights(out), weights(trained("lstm", 1)[1]))

    @pytest.mark.slow
    def test_sharded_and_then_in_one_process_and_back(self, several, trained, tmp_path):
        out, sharded = tmp_path / "run", {"training.shard": "full"}
        several(2, settings("transformer", sharded), out, until=2)
        several(1, settings("transformer"), out, resume=True)
        assert_near(weights(out), weights(trained("transformer", 1)[1]))
        more = {"training.steps": 6}
        several(2, settings("transformer", sharded | more), out, resume=True)
        assert_near(weights(out), weights(trained("transformer", 1, more)[1]), 1e-4)


class TestSharded:
    @pytest.mark.parametrize("model", ["lstm", "transformer", pytest.param("prefix", marks=pytest.mark.slow)])
    def test_weights_are_those_of_one_process(self, trained, model):
        assert_same_run(trained(model, 1), trained(model, 2, {"training.shard": "full"}))

    @pytest.mark.slow
    def test_batches_that_do_not_divide(self, trained):
        odd = {"training.accumulate": 3}
        sharded = {**odd, "training.shard": "full"}
        assert_same_run(trained("transformer", 1, odd), trained("transformer", 2, sharded))

    @pytest.mark.slow
    def test_scheduled_sampling(self, trained):
        sampled = {"training.forcing": "scheduled", "training.sampling": 1.0, "training.steps": 2}
        sharded = {**sampled, "training.shard": "full"}
        assert_same_run(trained("transformer", 1, sampled), trained("transformer", 2, sharded))

    @pytest.mark.slow
    def test_adam_of_sharded_weights_is_adam(self, trained):
        """Compared with two workers without sharding: rounding decides where Adam goes if a gradient is almost zero."""
        adam = {"training.optimizer": "adamw", "training.learning_rate": 0.001, "training.steps": 2}
        (seen, _), (sharded, _) = (
            trained("transformer", 2, adam | extra) for extra in ({}, {"training.shard": "full"})
        )
        losses, losses_too = ([step[1] for step in each[0] if len(step) == 4] for each in (seen, sharded))
        assert losses == pytest.approx(losses_too, rel=1e-4)


class TestErrors:
    def test_one_error_ends_all(self, several, tmp_path):
        """Those that wait lose the first one, and say so; the first says what was wrong."""
        missing = settings("lstm", {"data.train": "nowhere.tsv"})
        first, second = several(2, missing, tmp_path / "run", check=2)
        assert "nowhere.tsv" in first and second.startswith("lost another worker while the main process prepared")

    def test_a_folder_that_is_there(self, several, tmp_path):
        (tmp_path / "run" / "mine").mkdir(parents=True)
        first, _ = several(2, settings("lstm"), tmp_path / "run", check=2)
        assert "already exists" in first

    def test_a_loss_that_is_not_finite_is_skipped_by_all(self, several, tmp_path):
        wild = settings("lstm", {"training.learning_rate": 3e38, "training.clip": 0.0, "training.steps": 9})
        said = several(2, wild, tmp_path / "run", check=2)
        assert said[0] == said[1] and "the loss was not finite 5 times in a row" in said[0]


class TestSingleProcess:
    def test_nothing_in_the_environment(self):
        assert Workers.from_environment({}) == SINGLE_PROCESS == Workers(0, 1, 0) and SINGLE_PROCESS.is_main

    def test_the_environment_of_torchrun(self):
        given = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
        assert Workers.from_environment(given) == Workers(3, 4, 1)

    def test_a_malformed_environment(self):
        with pytest.raises(TrainingError, match="RANK=two, WORLD_SIZE=4: not what a launcher sets"):
            Workers.from_environment({"RANK": "two", "WORLD_SIZE": "4"})

    def test_does_nothing(self):
        parameter = torch.nn.Parameter(torch.ones(3))
        measured = torch.tensor(2.0)
        with SINGLE_PROCESS.connected() as team:
            team.barrier()
            team.signal_ready()
            team.wait_for_main()
            team.all_reduce(measured)
            team.all_reduce_gradients([parameter], measured)
            assert team.from_main(lambda: 5) == 5 and team.reports_error() and not team.was_training("run")
        assert parameter.grad is None and measured == 2 and full_tensor(measured) is measured
        assert shard_like(measured, like=parameter) is measured


class TestDevices:
    def test_a_cpu_is_shared(self):
        assert Workers(1, 2, 1).device(torch.device("cpu")) == torch.device("cpu")

    def test_one_gpu_for_two(self):
        with pytest.raises(RecipeError, match="'cuda:0' is one GPU, for 2 workers; use cuda"):
            Workers(1, 2, 1).device(torch.device("cuda:0"))

    def test_more_workers_than_gpus(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(RecipeError, match="no GPU for worker 2 of this machine, which has 1"):
            Workers(1, 2, 1).device(torch.device("cuda"))


def test_draws_are_a_function_of_their_key():
    found = []
    for key in [(1, 2, 3), (1, 2, 4), (1, 3, 2), (2, 1, 3), (1, 2, 3)]:
        seed_rng(*key)
        found.append(torch.rand(4).tolist())
    assert found[0] == found[4] and len({tuple(one) for one in found}) == 4


def test_buckets_hold_all_in_order(monkeypatch):
    monkeypatch.setattr(distributed, "BUCKET_ELEMENTS", 10)
    sizes = [3, 4, 3, 1, 20, 2, 2]
    tensors = [torch.full((size,), float(size)) for size in sizes]
    tensors[-1] = tensors[-1].double()
    buckets = list(distributed._buckets(tensors))
    assert [[one.numel() for one in bucket] for bucket in buckets] == [[3, 4, 3], [1], [20], [2], [2]]
