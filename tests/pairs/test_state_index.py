"""The states of a run's training pairs: those that a walk shows, found again, and never those of other weights."""

import json
import shutil
from itertools import islice

import pytest
import torch

import weft
from weft.apps.serve.walk import Choice, walk_step
from weft.data.preparation import read_corpus
from weft.errors import CheckpointError
from weft.pairs.state_index import FILE_NAME, IndexedPair, StateIndex, index_of, keep_states, read_index, write_index
from weft.recipe import make_recipe
from weft.runs.weights import read_tensors, write_tensors
from weft.runtime.replaceable import plain_only
from weft.training.train import train

STACK = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 16}
SMALL = {
    **{"data.train": "grammar", "data.train_size": 40, "tokenizer.kind": "word", "tokenizer.joint": False},
    **{"model.embedding": 16, "model.encoder.hidden": 16, "model.decoder.hidden": 16, "model.dropout": 0.0},
    **{"training.steps": 2, "training.batch_tokens": 200, "training.device": "cpu", "training.save_every": 0},
    **{"serve.states": 7},
}
MODELS = {
    "recurrent": {},
    "copying": {"model.copy": True},
    "transformer": {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()},
}


def trained(folder, **changes):
    settings = {**SMALL, **changes}
    recipe = make_recipe({}, [f"{name}={json.dumps(value)}" for name, value in settings.items()])
    assert list(train(recipe, folder))
    return folder


@pytest.fixture(scope="module", params=MODELS)
def folder(request, tmp_path_factory):
    folder = trained(tmp_path_factory.mktemp("states") / request.param, **MODELS[request.param])
    assert keep_states(folder, device="cpu")
    return folder


def test_states_are_those_of_a_walk(folder):
    """Computed for whole targets in batches, they are what the output layer reads step by step."""
    run, index = weft.load(folder, device="cpu"), read_index(folder)
    assert len(index.pairs) == 7
    pairs = list(islice(read_corpus(run.recipe, "train"), 7))
    assert [pair.source for pair in index.pairs] == [pair.source for pair in pairs]
    for number in (0, 6):
        rows = (index.pair_N == number).nonzero().flatten()
        assert index.position_N[rows].tolist() == list(range(len(index.pairs[number].target)))
        target = [*run.encode_target(pairs[number].target, pairs[number].source), 0]
        inputs = [run.tokenizers.frame.begin, *target[:2]]
        with torch.no_grad(), plain_only():
            walked = walk_step(run.model, run.source_ids(pairs[number].source), inputs, Choice(0, 0))
        state_D = torch.nn.functional.normalize(walked.output_RD[0].float(), dim=0)
        assert torch.allclose(index.states_ND[rows[2]].float(), state_D, atol=2e-3)
        nearest = index.nearest(walked.output_RD[0], 3)
        assert (nearest[0].pair, nearest[0].position) == (index.pairs[number], 2)
        assert nearest[0].similarity == pytest.approx(1, abs=2e-3)
        assert len(nearest) == 3


def test_nearest_states_by_hand():
    """Of every pair the nearest state, by the cosine, whatever the lengths."""
    states_ND = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]]).half()
    pairs = [IndexedPair("a", ["x", "y"]), IndexedPair("b", ["z", "w"])]
    index = StateIndex(states_ND, torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]), pairs)
    first, second = index.nearest(torch.tensor([5.0, 0.0]), 5)
    assert (first.pair.source, first.position, second.pair.source, second.position) == ("a", 0, "b", 1)
    assert first.similarity == pytest.approx(1) and second.similarity == pytest.approx(0.8, abs=1e-3)


def test_an_index_of_other_weights_is_ignored(folder, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(folder, other)
    assert read_index(other) is not None
    content = read_tensors(other / "model.safetensors")
    changed = {name: tensor + 1 for name, tensor in content.tensors.items()}
    write_tensors(other / "model.safetensors", changed, content.metadata)
    assert read_index(other) is None


def test_a_damaged_index_and_a_link_are_ignored(folder, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(folder, other)
    path = other / FILE_NAME
    file = read_tensors(path)
    pairs = json.loads(file.metadata["pairs"])
    for wrong in (pairs[:-1], "x", [["a"]]):
        write_tensors(path, file.tensors, {**file.metadata, "pairs": json.dumps(wrong)})
        assert read_index(other) is None
    path.write_bytes(path.read_bytes()[:-9])
    assert read_index(other) is None
    path.unlink()
    path.symlink_to(folder / FILE_NAME)
    assert read_index(other) is None


def test_a_run_keeps_none_unless_it_is_asked(tmp_path, monkeypatch):
    folder = trained(tmp_path / "run", **{"serve.states": 0})
    assert not keep_states(folder, device="cpu") and read_index(folder) is None
    run = weft.load(folder, device="cpu")
    pairs = list(islice(read_corpus(run.recipe, "train"), 2))
    index = index_of(run, pairs)
    monkeypatch.setattr("weft.pairs.state_index.MAX_TEXT_BYTES", 10)
    with pytest.raises(CheckpointError, match="the pairs have more than 10 bytes; keep fewer"):
        write_index(folder, index)
    with pytest.raises(CheckpointError, match="no training pairs"):
        index_of(run, [])
