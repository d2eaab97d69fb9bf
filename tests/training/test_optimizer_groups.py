"""Which weights are trained, and at which learning rate."""

import pytest
import torch

from weft.errors import RecipeError
from weft.models.build import build_model
from weft.recipe import TrainingSettings, make_recipe
from weft.training.optimizer import freeze, group_rate, layers_above, make_optimizer, parameter_groups

STACK = {"kind": "transformer", "hidden": 8, "heads": 2, "feed_forward": 5}
MODEL = {"embedding": 8, "encoder": {**STACK, "layers": 3}, "decoder": {**STACK, "layers": 2}}


@pytest.fixture
def model():
    return build_model(make_recipe({"model": MODEL}).model, source_size=7, target_size=11)


def test_frozen_weights_have_no_state(model):
    freeze(model, ["encoder.*", "*_embedding.weight_VE"])
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {
        name for name, _ in model.named_parameters() if name.startswith(("encoder.", "source_", "target_"))
    }
    optimizer = make_optimizer(model, TrainingSettings())
    [group] = optimizer.param_groups
    assert len(group["params"]) == len([*model.parameters()]) - len(frozen)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["encodr.*"], "no weight of this model matches 'encodr.*'; there are source_embedding.*, target_embedding.*"),
        (["output.bias"], "no weight of this model matches 'output.bias'; did you mean 'output.bias_V'?"),
        (["*"], "all weights are frozen, so that nothing is left to train"),
    ],
)
def test_freezing_refused(model, patterns, message):
    with pytest.raises(RecipeError) as caught:
        freeze(model, patterns)
    assert str(caught.value).startswith(f"training.freeze: {message}") and "\n" not in str(caught.value)


def test_layer_decay(model):
    settings = TrainingSettings(layer_decay=0.5)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {
        names[id(parameter)]: group_rate(group, 8.0)
        for group in make_optimizer(model, settings).param_groups
        for parameter in group["params"]
    }
    assert len(rates) == len(names)
    expected = {
        "encoder.stack.layers.0.": 2.0,
        "encoder.stack.layers.1.": 4.0,
        "encoder.stack.layers.2.": 8.0,
        "decoder.stack.layers.0.": 4.0,
        "decoder.stack.layers.1.": 8.0,
        "encoder.stack.final_norm.": 8.0,
        "source_embedding.": 1.0,
        "target_embedding.": 1.0,
        "output.": 8.0,
    }
    for prefix, rate in expected.items():
        assert {value for name, value in rates.items() if name.startswith(prefix)} == {rate}, prefix
    assert all(name.startswith((*expected, "decoder.stack.final_norm.")) for name in rates)


def test_without_it_there_is_one_group_of_all(model):
    assert all(
        one is other for one, other in zip(parameter_groups(model, TrainingSettings()), model.parameters(), strict=True)
    )
    rate = torch.tensor(0.3)
    assert group_rate({}, rate) is rate and group_rate({}, 0.3) == 0.3


def test_recurrent_layers():
    names = ["embedding.weight_VE", "encoder.stack.layers.0.weight_ih_l0", "encoder.stack.layers.1.weight_ih_l0", "x"]
    assert [layers_above(name, names) for name in names] == [2, 1, 0, 0]
