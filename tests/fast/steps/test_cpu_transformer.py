"""Steps on a CPU in few calls against the plain steps; rows that are selected are copied with the next token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.fast.steps.cpu_transformer import LazyState, applies
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runtime.replaceable import plain_only
from weft.tree import keep, repeat, select

COVERED = {
    "pre": [],
    "post": ["norm_placement=post"],
    "learned": ["positions=learned", "max_positions=600"],
    "rms": ["norm=rms", "activation=swiglu"],
    "rotary": ["positions=rotary"],
    "relative": ["positions=relative"],
    "alibi, shared heads": ["positions=alibi", "key_value_heads=2"],
    "shared heads": ["key_value_heads=1"],
}
SIZES = ["layers=2", "hidden=16", "heads=4", "feed_forward=20"]
SOURCES = [[3, 4, 5, 2], [6, 2], [7, 8, 2]]


def model_of(settings: list[str], *more: str) -> Any:
    kinds = ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.embedding=16"]
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in (*SIZES, *settings)]
    return build_model(make_recipe({}, [*kinds, *changes, *more]).model, source_size=11, target_size=13, seed=3).eval()


def outputs(model: Any) -> list[Tensor]:
    """Of steps of a beam of two, whose rows change places and of whose sentences one ends."""
    memory = model.encode(Ragged.of(SOURCES))
    state = repeat(model.start(memory), 2)
    tensors: list[Tensor] = []
    for step in range(5):
        tokens_R = torch.arange(len(tensors[-1]) if tensors else 6) + step + 1
        logits_RV, state, attention_RS = model.step(tokens_R, state, memory)
        tensors += [attention_RS, logits_RV]
        if step == 2:
            memory, state = select(memory, torch.tensor([0, 2])), keep(state, torch.tensor([0, 1, 4, 5]))
        rows = [1, 0, 3, 3] if step > 1 else [1, 1, 2, 3, 5, 4]
        tensors[-1], state = logits_RV[: len(rows)], select(select(state, torch.tensor(rows)), torch.arange(len(rows)))
    return tensors


@pytest.mark.parametrize("name", COVERED)
@pytest.mark.parametrize("quantized", [False, True])
@torch.no_grad()
def test_equal_to_plain_steps(name: str, quantized: bool) -> None:
    model = model_of(COVERED[name])
    model = quantize(model) if quantized else model
    fast = outputs(model)
    with plain_only():
        plain = outputs(model)
    torch.testing.assert_close(fast, plain, rtol=0, atol=0.1 if quantized else 1e-5)


@torch.no_grad()
def test_rows_of_a_state() -> None:
    """Selecting rows once or twice, or more of them than there are, is what selecting rows of tensors is."""
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCES))
    _, state, _ = model.step(torch.tensor([3, 4, 5]), model.start(memory), memory)
    assert isinstance(state, LazyState)
    first, second = torch.tensor([1, 1, 2]), torch.tensor([2, 0, 0, 1])
    lazy = select(state, first)
    assert lazy.layers is state.layers
    expected = select(select(state.layers, first), second)
    torch.testing.assert_close(select(lazy, second).layers, expected)
    torch.testing.assert_close(keep(lazy, second).copied().layers, expected)
    fixed = fixed_capacity(lazy, 5, return_attention=False)
    torch.testing.assert_close(fixed.cache.layers[1].keys[:, :, :1], select(state.layers, first)[1].keys)


@torch.no_grad()
def test_which_steps_are_covered() -> None:
    def is_covered(model: Any) -> bool:
        memory = model.encode(Ragged.of(SOURCES))
        return applies(model.decoder, torch.zeros(3, 16), model.start(memory), memory)

    assert all(is_covered(model_of(settings)) for settings in COVERED.values())
    assert not is_covered(model_of([], "model.attention.normalizer=sparsemax"))
    assert not is_covered(model_of([]).train())
    with torch.enable_grad():
        assert not is_covered(model_of([]))
