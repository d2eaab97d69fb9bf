"""Steps of a recurrent language model with its history in storage of a fixed size against steps with a growing one."""

from __future__ import annotations

import pytest
import torch

from weft.fast.steps.cached_history import CachedHistoryState
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.tree import keep, repeat, select


@pytest.mark.parametrize("score", ["additive", "dot"])
@torch.no_grad()
def test_equal_to_plain_steps(score: str) -> None:
    settings = {"kind": "language_model", "embedding": 5, "decoder": {"hidden": 7}, "attention": {"score": score}}
    model = build_model(ModelSettings.model_validate(settings), source_size=13, target_size=13, seed=3).eval()
    memory = model.encode(Ragged.of([[], []]))
    plain = repeat(model.start(memory), 2)
    cached = fixed_capacity(plain, 3, return_attention=False)
    assert isinstance(cached, CachedHistoryState)
    for time in range(6):
        tokens_R = torch.arange(len(plain.history_RTD)) + time + 3
        expected_RV, plain, weights_RT = model.step(tokens_R, plain, memory)
        logits_RV, cached, attention_RT = model.step(tokens_R, cached, memory)
        torch.testing.assert_close(logits_RV, expected_RV)
        assert weights_RT is not None and attention_RT is not None
        torch.testing.assert_close(attention_RT[:, : weights_RT.shape[1]], weights_RT)
        assert not attention_RT[:, weights_RT.shape[1] :].any()
        if time == 1:
            plain, cached = select((plain, cached), torch.tensor([1, 1, 0, 3]))
        if time == 2:
            cached = fixed_capacity(cached, 4, return_attention=False)
            plain, cached = keep((plain, cached), torch.tensor([2, 3]))
            memory = select(memory, torch.tensor([0]))


@torch.no_grad()
def test_a_state_without_history_has_fixed_shapes() -> None:
    settings = {"kind": "language_model", "embedding": 5, "decoder": {"hidden": 7}, "attention": {"score": "none"}}
    model = build_model(ModelSettings.model_validate(settings), source_size=13, target_size=13, seed=3).eval()
    state = model.start(model.encode(Ragged.of([[]])))
    assert fixed_capacity(state, 3, return_attention=False) is state
