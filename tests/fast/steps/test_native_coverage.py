"""Models and sources that compiled steps refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.one_sentence import SOURCE, model_of
from weft.attention.multihead import KeysValues
from weft.fast.cpu import compiled
from weft.fast.steps.native_transformer import native_steps
from weft.models.lora import add_adapters
from weft.ragged import Ragged
from weft.recipe.training import LoraSettings

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


def _with_hook(model: Any) -> None:
    model.decoder.stack.layers[1].feed_forward.linear2.register_forward_hook(lambda *_: None)


def _with_output_hook(model: Any) -> None:
    model.output.register_forward_pre_hook(lambda *_: None)


def _with_adapters(model: Any) -> None:
    add_adapters(model, LoraSettings(rank=2), seed=1)
    model.eval()


def _with_narrow_layer(model: Any) -> None:
    network = model.decoder.stack.layers[1].feed_forward
    network.linear1, network.linear2 = torch.nn.Linear(12, 5), torch.nn.Linear(5, 12)


def _with_half_embedding(model: Any) -> None:
    model.target_embedding.bfloat16()


def _with_double_norm(model: Any) -> None:
    model.decoder.stack.final_norm.double()


def _with_norm_without_weights(model: Any) -> None:
    model.decoder.stack.layers[0].feed_forward_residual.norm = torch.nn.LayerNorm(12, elementwise_affine=False)


def _with_strided_weights(model: Any) -> None:
    linear = model.decoder.stack.layers[0].cross_attention.query
    linear.weight = torch.nn.Parameter(torch.randn(12, 24)[:, ::2])


def _with_parametrization(model: Any) -> None:
    torch.nn.utils.parametrizations.weight_norm(model.decoder.stack.layers[0].feed_forward.linear1)


def _in_training(model: Any) -> None:
    model.train()


@pytest.mark.parametrize(
    "change",
    [
        _with_hook, _with_output_hook, _with_adapters, _with_narrow_layer, _with_half_embedding, _with_double_norm,
        _with_norm_without_weights, _with_strided_weights, _with_parametrization, _in_training,
    ],
)  # fmt: skip
@torch.no_grad()
def test_changed_models_are_refused(change: Any) -> None:
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCE))
    assert native_steps(model, memory, rows=1, return_attention=True) is not None
    change(model)
    assert native_steps(model, memory, rows=1, return_attention=True) is None


@torch.no_grad()
def test_memories_that_are_refused() -> None:
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCE))
    (keys, values), *others = memory.layers
    for other in (
        memory._replace(mask_B11S=memory.mask_B11S.expand(1, 2, 1, -1)),
        memory._replace(mask_B11S=memory.mask_B11S.double()),
        memory._replace(mask_B11S=memory.mask_B11S[..., :-1]),
        memory._replace(layers=(KeysValues(keys, values[:, :, :-1]), *others)),
        memory._replace(layers=(KeysValues(keys, values.double()), *others)),
        memory._replace(layers=tuple(KeysValues(*(part[:, :1] for part in layer)) for layer in memory.layers)),
        memory._replace(layers=tuple(KeysValues(*(part[:, :, :0] for part in layer)) for layer in memory.layers)),
    ):
        assert native_steps(model, other, rows=1, return_attention=True) is None
