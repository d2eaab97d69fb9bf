"""Prompts read at once and padded against prompts read step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.fast.recording.prompts import encode_padded, has_many_shapes, read_prompts, reads_at_once
from weft.fast.steps.kv_cache import LENGTH_MULTIPLE
from weft.models import prompted_lm
from weft.models.build import build_model
from weft.models.prompted_lm import PromptedLM
from weft.recipe import ModelSettings
from weft.runtime.replaceable import plain_of

PROMPTS_BM = torch.tensor([[5, 6, 7, 4], [3, 9, 8, 10]])


def make(positions: str) -> Any:
    stack = {"kind": "transformer", "layers": 2, "hidden": 12, "heads": 2, "feed_forward": 17, "positions": positions}
    settings = ModelSettings.model_validate({"kind": "language_model", "embedding": 12, "decoder": stack})
    return build_model(settings, source_size=13, target_size=13, seed=3).eval()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
@torch.no_grad()
def test_equal_to_steps(positions: str) -> None:
    model = make(positions)
    prompted = PromptedLM(model, 1)
    memory = encode_padded(prompted, PROMPTS_BM)
    assert memory.prompts_BM.shape == (2, LENGTH_MULTIPLE)
    assert torch.equal(memory.prompts_BM[:, :4], plain_of(PromptedLM.encode)(prompted, PROMPTS_BM).prompts_BM)
    ours = read_prompts(model, PROMPTS_BM, memory.memory)
    torch.testing.assert_close(ours, plain_of(prompted_lm.read_prompts)(model, PROMPTS_BM, memory.memory))


def test_on_a_gpu_alone() -> None:
    model = make("rotary")
    assert not has_many_shapes(PromptedLM(model, 1), PROMPTS_BM) and not reads_at_once(model, PROMPTS_BM, None)
