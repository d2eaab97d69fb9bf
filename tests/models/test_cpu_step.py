"""Steps on a CPU in few calls against the plain steps, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.models import transformer_decoder
from weft.models.build import build_model
from weft.models.cpu_step import has_plain_layers
from weft.models.quantization import quantize
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.tree import keep, repeat, select

PLAIN = {
    "pre": [],
    "post": ["norm_placement=post"],
    "learned": ["positions=learned", "max_positions=600"],
    "rms": ["norm=rms", "activation=swiglu"],
}
OTHERS = {
    "rotary": ["positions=rotary"],
    "alibi": ["positions=alibi"],
    "shared heads": ["key_value_heads=1"],
}
SIZES = ["layers=2", "hidden=12", "heads=2", "feed_forward=20"]


def model_of(settings: list[str], *more: str) -> Any:
    kinds = ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.embedding=12"]
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in (*SIZES, *settings)]
    return build_model(make_recipe({}, [*kinds, *changes, *more]).model, source_size=11, target_size=13, seed=3).eval()


def outputs(model: Any) -> list[Tensor]:
    """Of steps of a beam of two, whose rows change places and of whose sentences one ends."""
    memory = model.encode(Ragged.of([[3, 4, 5, 2], [6, 2], [7, 8, 2]]))
    state = repeat(model.start(memory), 2)
    tensors: list[Tensor] = []
    for step in range(5):
        tokens_R = torch.arange(len(tensors[-1]) if tensors else 6) + step + 1
        logits_RV, state, attention_RS = model.step(tokens_R, state, memory)
        tensors += [attention_RS, logits_RV]
        if step == 2:
            memory, state = select(memory, torch.tensor([0, 2])), keep(state, torch.tensor([0, 1, 4, 5]))
        rows = [1, 0, 3, 3] if step > 1 else [1, 1, 2, 3, 5, 4]
        tensors[-1], state = logits_RV[: len(rows)], select(state, torch.tensor(rows))
    return tensors


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("quantized", [False, True])
@torch.no_grad()
def test_equal_to_plain_steps(name: str, quantized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(PLAIN[name])
    model = quantize(model) if quantized else model
    fast = outputs(model)
    monkeypatch.setattr(transformer_decoder, "has_plain_layers", lambda *_: False)
    for plain, other in zip(outputs(model), fast, strict=True):
        assert torch.equal(plain, other)


def is_plain(model: Any) -> bool:
    return has_plain_layers(model.decoder.stack, torch.zeros(1))


@torch.no_grad()
def test_which_layers_are_plain() -> None:
    assert all(is_plain(model_of(settings)) for settings in PLAIN.values())
    assert not any(is_plain(model_of(settings)) for settings in OTHERS.values())
    assert not is_plain(model_of([], "model.attention.normalizer=sparsemax"))
    assert not is_plain(model_of([]).train())
    with torch.enable_grad():
        assert not is_plain(model_of([]))
