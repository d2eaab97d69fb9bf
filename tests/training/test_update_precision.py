"""The precision that is used: what ``auto`` means, and that TF32 is allowed for a while only."""

from __future__ import annotations

import pytest
import torch

from weft.errors import RecipeError
from weft.models.build import build_model
from weft.models.interface import Model
from weft.recipe import ModelSettings, TrainingSettings, make_recipe
from weft.training.update import autocast, resolve_precision

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 2, "feed_forward": 7}
CELL = {"kind": "gru", "hidden": 6}
TRANSFORMER = {"encoder": STACK, "decoder": STACK}
MODELS = {
    "transformer": TRANSFORMER,
    "attention": {"encoder": {**STACK, "kind": "attention"}, "decoder": STACK},
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "transformer language model": {"kind": "language_model", "decoder": STACK},
    "gru": {"encoder": CELL, "decoder": CELL},
    "lstm": {"encoder": {"hidden": 6}, "decoder": {"hidden": 6}},
    "transformer to gru": {"encoder": STACK, "decoder": CELL},
    "gru to transformer": {"encoder": CELL, "decoder": STACK},
    "language model": {"kind": "language_model", "decoder": CELL},
}
ATTENTIVE = ("transformer", "attention", "prefix", "transformer language model")
"""Those without a recurrence."""
every_model = pytest.mark.parametrize("name", MODELS)


def build(name: str, dropout: float = 0.0) -> Model:
    tree = {"embedding": 6, "dropout": dropout, **MODELS[name]}
    return build_model(ModelSettings.model_validate(tree), source_size=11, target_size=13)


@every_model
def test_auto_is_single_on_a_cpu(name: str) -> None:
    assert resolve_precision(build(name), TrainingSettings(), CPU) == "fp32"


@every_model
def test_auto_on_a_gpu_depends_on_recurrence(name: str) -> None:
    expected = "bf16" if name in ATTENTIVE else "tf32"
    assert resolve_precision(build(name), TrainingSettings(), CUDA) == expected


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("device", [CPU, CUDA], ids=str)
def test_an_explicit_precision_is_used(precision: str, device: torch.device) -> None:
    assert resolve_precision(build("transformer"), TrainingSettings(precision=precision), device) == precision


def test_only_bf16_changes_types() -> None:
    one = torch.randn(3, 3)
    for precision, kind in (("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(precision, CPU):
            assert (one @ one).dtype == kind


@every_model
def test_bf16_is_for_transformers_only(name: str) -> None:
    tree = {"model": MODELS[name], "training": {"precision": "bf16"}}
    if name in ATTENTIVE:
        assert make_recipe(tree).training.precision == "bf16"
        return
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree)
    message = "training.precision: 'bf16' is for Transformers; recurrent models train in fp32 or tf32"
    assert str(caught.value) == message
