"""The moving average of the weights: its equation, what it is of, and its part of a checkpoint."""

from __future__ import annotations

import pytest
import torch

from oracles import regularization as oracle
from weft.errors import CheckpointError
from weft.models.build import build_model
from weft.models.interface import Model
from weft.models.lora import add_adapters
from weft.recipe import ModelSettings
from weft.recipe.training import LoraSettings
from weft.runs.weights import model_tensors
from weft.training.moving_average import MovingAverage
from weft.training.optimizer import freeze

STACK = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 7}


def build() -> Model:
    tree = {"embedding": 6, "encoder": STACK, "decoder": STACK}
    return build_model(ModelSettings.model_validate(tree), source_size=11, target_size=13)


def change(model: Model, seed: int) -> None:
    """Other weights where they are trained."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.copy_(torch.randn_like(weight))


@pytest.mark.parametrize("decay", [0.3, 0.95])
def test_equation(decay: float) -> None:
    model = build()
    average = MovingAverage(model, decay)
    bias = model_tensors(model)["output.bias_V"]
    values = [bias.tolist()]
    for step in range(1, 8):
        change(model, step)
        average.update(step)
        values.append(bias.tolist())
    expected = [oracle.moving_average(column, decay) for column in zip(*values, strict=True)]
    assert average.averages["output.bias_V"].tolist() == pytest.approx(expected, rel=1e-5)
    assert average.averages["output.bias_V"].dtype == torch.float32
    assert bias.tolist() == values[-1], "the model keeps its own weights"


def test_is_of_the_weights_that_are_trained() -> None:
    model = build()
    freeze(model, ["encoder.*"])
    names = set(MovingAverage(model, 0.9).averages)
    assert names == {name for name in model_tensors(model) if not name.startswith("encoder.")}
    adapted = build()
    add_adapters(adapted, LoraSettings(rank=2), seed=1)
    assert set(MovingAverage(adapted, 0.9).averages) == set(model_tensors(adapted)) != set(model_tensors(build()))


def test_checkpoints() -> None:
    model = build()
    average = MovingAverage(model, 0.9)
    change(model, 1)
    average.update(1)
    saved = {name: tensor.clone() for name, tensor in average.checkpoint_tensors().items()}
    again = MovingAverage(build(), 0.9)
    again.restore(saved, where="here")
    assert all(torch.equal(again.averages[name], tensor) for name, tensor in average.averages.items())
    with pytest.raises(CheckpointError) as caught:
        again.restore({}, where="here")
    assert str(caught.value) == "here: damaged; the moving average of the weights (training.ema) is missing"
    name = next(iter(saved))
    with pytest.raises(CheckpointError, match=r"^here: does not fit its recipe: tensor"):
        again.restore({**saved, name: torch.zeros(1)}, where="here")
