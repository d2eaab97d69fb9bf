"""Training adapters: what the run folder holds, several adapters, resuming, and starting from an adapted run."""

import json
import shutil

import pytest
import torch

from weft.data.pairs import Pair
from weft.errors import CheckpointError, RecipeError
from weft.runs.adapters import AdapterFolder, adapter_names
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.status import find_runs
from weft.runs.weights import model_tensors
from weft.training.train import train
from weft.translation.load import load

STACK = {"kind": "transformer", "layers": 1, "hidden": 12, "heads": 2, "feed_forward": 20}
MODEL = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
MODEL |= {"model.embedding": 12, "training.warmup": 0, "training.learning_rate": 0.03}
LORA = {"training.lora.rank": 3, "training.validate_every": 2, "training.average": 2}
PAIRS = [Pair("a b c", "a b c"), Pair("d", "d")]
pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


@pytest.fixture(scope="module")
def base(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "run"
    list(train(tiny({**MODEL, "training.validate_every": 3}), path))
    return path


@pytest.fixture(scope="module")
def adapted(tiny, base, tmp_path_factory):
    path = tmp_path_factory.mktemp("adapted") / "run"
    list(train(tiny({**MODEL, **LORA, "training.start": str(base)}), path))
    return path


def weights(path, **options):
    return model_tensors(load_run(path, **options).model)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_run_folder(base, adapted):
    run = RunFolder(adapted)
    assert same(run.read_model().tensors, RunFolder(base).read_model().tensors)
    assert adapter_names(run) == ["default"] and adapter_names(RunFolder(base)) == []
    adapter, origin = AdapterFolder(run, "default").read()
    assert origin.kind in ("best", "mean") and origin.validation["loss"] > 0
    attentions = ("encoder.stack.layers.0.self", "decoder.stack.layers.0.self", "decoder.stack.layers.0.cross")
    assert set(adapter) == {f"{name}_attention.{part}" for name in attentions for part in ("query", "value")}
    config = json.loads((adapted / "adapters/default/adapter_config.json").read_text("utf-8"))
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 3, 6.0)


def test_it_is_used_unless_told_otherwise(base, adapted):
    assert same(weights(adapted, adapter="none"), weights(base))
    assert not same(weights(adapted), weights(base))
    assert same(weights(adapted), weights(adapted, adapter="default"))
    scores = [load(adapted, **options).score(PAIRS)[0].token_scores for options in ({}, {"adapter": "none"})]
    assert scores[0] != scores[1] and scores[1] == load(base).score(PAIRS)[0].token_scores


def test_only_the_rows_of_targets_change(base, adapted):
    before, after = weights(base), weights(adapted)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {
        name for name in before if "attention." in name and "output" not in name and name[-6:] == "weight"
    }
    name = "encoder.stack.layers.0.self_attention.query_key_value.weight"
    assert torch.equal(before[name][12:24], after[name][12:24]), "keys have no adapter"


def test_an_unknown_name(adapted, base):
    with pytest.raises(CheckpointError) as caught:
        load(adapted, adapter="defualt")
    assert str(caught.value) == f"adapter='defualt': {adapted} has no adapter of this name; did you mean 'default'?"
    with pytest.raises(CheckpointError, match=r"has no adapter of this name; it has none$"):
        load(base, adapter="x")
    with pytest.raises(CheckpointError, match="has no adapter of this name"):
        load(adapted, adapter="../adapters/default")


def test_several(adapted, tmp_path):
    shutil.copytree(adapted, tmp_path / "run")
    shutil.copytree(adapted / "adapters/default", tmp_path / "run/adapters/second")
    run = RunFolder(tmp_path / "run")
    folder = AdapterFolder(run, "second")
    adapter, origin = folder.read()
    folder.write({name: each._replace(lora_B=-each.lora_B) for name, each in adapter.items()}, {}, origin)
    assert adapter_names(run) == ["default", "second"]
    plain, first, second = (weights(run.path, adapter=name) for name in ("none", "default", "second"))
    for name in plain:
        torch.testing.assert_close(first[name] - plain[name], plain[name] - second[name])


def test_resuming_is_the_same(tiny, base, adapted, tmp_path):
    recipe = tiny({**MODEL, **LORA, "training.start": str(base)})
    for event in train(recipe, tmp_path / "run"):
        if event.step == 3:
            break
    list(train(recipe, tmp_path / "run", resume=True))
    assert same(weights(tmp_path / "run"), weights(adapted))


def test_half_written_files_are_removed(adapted, tmp_path):
    shutil.copytree(adapted, tmp_path / "run")
    folder = tmp_path / "run/adapters/default"
    for name in (".adapter_model.safetensors.123.part", ".adapter_config.json.part", "notes.part"):
        (folder / name).touch()
    RunFolder(tmp_path / "run").prune(6, [6])
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "notes.part",
    }


def test_checkpoints_hold_the_adapters_only(adapted):
    tensors = RunFolder(adapted).read_checkpoint().weights
    assert tensors and all(".lora_" in name for name in tensors)


def test_starting_from_an_adapted_run(tiny, adapted, tmp_path):
    """Starts from the weights with the adapter; they are the base of the next adapter."""
    recipe = tiny({**MODEL, **LORA, "training.start": str(adapted), "training.lora.name": "next", "training.steps": 1})
    list(train(recipe, tmp_path / "run"))
    assert same(weights(tmp_path / "run", adapter="none"), weights(adapted))
    assert adapter_names(RunFolder(tmp_path / "run")) == ["next"]


def test_adapters_need_the_weights_of_a_run(tiny):
    with pytest.raises(RecipeError) as caught:
        tiny({**MODEL, **LORA})
    assert str(caught.value) == (
        "training.lora: adapters are trained on the weights of another run; start from one (--from RUN)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training.freeze": ["encoder.*"]},
            "training.freeze: with training.lora, only adapters are trained; leave it out",
        ),
        ({"training.shard": "full"}, "training.shard: 'full' is not for adapters, which are small; set it to 'none'"),
        ({"training.lora.name": "a/b"}, "training.lora.name: 'a/b' was given; expected letters, digits"),
        ({"training.lora.name": "none"}, "training.lora.name: 'none' was given; expected letters, digits"),
        ({"training.lora.alpha": 0.0}, "training.lora.alpha: 0.0 was given"),
    ],
)
def test_recipes_refused(tiny, changes, message):
    with pytest.raises(RecipeError) as caught:
        tiny({**MODEL, **LORA, "training.start": "runs/base", **changes})
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type: 'IA3' is not known; weft reads 'LORA'"),
        ({"use_dora": True}, "use_dora: magnitudes of DoRA are not read; weft reads plain LoRA"),
        ({"bias": "all"}, "bias: 'all': biases that were trained are not read"),
        ({"lora_alpha": "x"}, "lora_alpha: 'x'; expected a number from 0 to 100,000"),
        ({"lora_alpha": -1}, "lora_alpha: -1; expected a number from 0 to 100,000"),
        ({"lora_alpha": 1e8}, "lora_alpha: 100000000.0; expected a number from 0 to 100,000"),
        ({"alpha_pattern": {"(": 1}}, "alpha_pattern: '(' is not a regular expression"),
    ],
)
def test_bad_configurations(adapted, tmp_path, entry, message):
    shutil.copytree(adapted, tmp_path / "run")
    path = tmp_path / "run/adapters/default/adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **entry}), "utf-8")
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "run")
    assert str(caught.value) == f"{path}: {message}"


def test_the_card(adapted, base):
    card = (adapted / "README.md").read_text("utf-8")
    trained = "trained: the adapter 'default' (LoRA of rank 3, alpha 6, on the default projections)"
    assert f"\n- started from: {base}; {trained}\n" in card


@pytest.mark.parametrize(
    "changes",
    [
        {"training.lora.rank": 2},
        pytest.param({"training.freeze": ["encoder.*", "*norm.weight"]}, marks=pytest.mark.slow),
        pytest.param({}, marks=pytest.mark.slow),
    ],
)
def test_instructions_with_an_imported_model(tmp_path_factory, tmp_path, changes):
    """The source is instruction and input, the loss that of the output; frozen weights stay as they are."""
    pytest.importorskip("transformers")
    from fixtures import pretrained_models
    from weft.interop.importing import import_model
    from weft.recipe import load_recipe

    pretrained_models.make("t5", tmp_path / "original", end=3.0)
    start = import_model(tmp_path / "original", tmp_path / "t5")
    rows = [{"instruction": "copy", "input": text, "output": text} for text in ("a b", "c a", "b c")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    settings = {"training.steps": 2, "training.device": "cpu", "training.warmup": 0, "training.validate_every": 0}
    lines = [f"{name}={json.dumps(value)}" for name, value in {**settings, **changes}.items()]
    train_on = f"data.train={{instructions='{tmp_path / 'rows.jsonl'}', template='{{instruction}}: {{input}}'}}"
    recipe = load_recipe(start / "recipe.toml", [train_on, *lines], start=start)
    events = list(train(recipe, tmp_path / "run"))
    assert events[0].pairs == 3
    assert (events[0].trained_parameters is None) == (not changes)
    before, after = weights(start), weights(tmp_path / "run")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    if "training.lora.rank" in changes:
        assert changed and all("query" in name or "value" in name for name in changed)
    elif "training.freeze" in changes:
        assert changed and not any(name.startswith("encoder.") or name.endswith("norm.weight") for name in changed)
    else:
        assert len(changed) > len(before) / 2


def test_its_status(adapted):
    """The score is that of the adapter."""
    [status] = find_runs(adapted)
    _, origin = AdapterFolder(RunFolder(adapted), "default").read()
    assert (status.state, status.metric, status.score) == ("finished", "perplexity", origin.validation["perplexity"])
