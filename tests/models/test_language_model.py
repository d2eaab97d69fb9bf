"""The language model against the slow reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from oracles.recurrent import CONNECTIONS, SlowLanguageModel
from weft.attention.ragged_attention import alignment_weights
from weft.models.build import build_model
from weft.models.language_model import RecurrentLanguageModel
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS, SCORES

INPUTS = [[1, 5], [1, 9, 4, 6, 10], [1], [1, 3, 7]]
EMPTY = [[] for _ in INPUTS]


def make(decoder: dict[str, Any], attention: dict[str, Any], **model: Any) -> tuple[ModelSettings, nn.Module]:
    settings = ModelSettings.model_validate(
        {
            "kind": "language_model",
            "embedding": 5,
            "dropout": 0.0,
            "decoder": {"hidden": 7, **decoder},
            "attention": {"size": 13, **attention},
            **model,
        }
    )
    built = build_model(settings, source_size=3, target_size=11, seed=7)
    assert isinstance(built, RecurrentLanguageModel)
    torch.manual_seed(8)
    for name, parameter in built.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return settings, built.double()


def check(settings: ModelSettings, model: nn.Module) -> None:
    output = model(Ragged.of(EMPTY), Ragged.of(INPUTS), return_attention=True)
    weights_BTS = alignment_weights(output.attention, Ragged.of(EMPTY).layout)
    logits_by_row = Ragged.of(INPUTS).like(output.logits_NV).split()
    slow = SlowLanguageModel(settings, model)
    for row, inputs in enumerate(INPUTS):
        logits, weights = slow.logits(inputs)
        torch.testing.assert_close(logits_by_row[row], torch.tensor(logits, dtype=torch.float64))
        for time, numbers in enumerate(weights):
            own_S = weights_BTS[row, time]
            torch.testing.assert_close(own_S[: len(numbers)], torch.tensor(numbers, dtype=torch.float64))
            assert not own_S[len(numbers) :].any()


@pytest.mark.parametrize("tie", ["none", "target"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_plain(kind: str, connections: str, layers: int, tie: str) -> None:
    check(*make({"kind": kind, "connections": connections, "layers": layers}, {"score": "none"}, tie=tie))


@pytest.mark.parametrize("project", [False, True], ids=["states", "project"])
@pytest.mark.parametrize("score", SCORES)
def test_looking_back(score: str, project: bool) -> None:
    if score == "parameter_free" and project:
        pytest.skip("a parameter-free attention learns no projections")
    check(*make({"kind": "gru"}, {"score": score, "project": project}))


@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_looking_back_over_stacks(kind: str, connections: str) -> None:
    check(*make({"kind": kind, "connections": connections, "layers": 2, "hidden": 5}, {"score": "general"}))


def test_the_history_grows_by_one_state_per_step() -> None:
    _, model = make({"kind": "lstm"}, {"score": "dot"})
    memory = model.encode(Ragged.of([[], []]))
    state = model.start(memory)
    for step in range(1, 4):
        _, state, weights_RS = model.step(torch.tensor([3, 5]), state, memory)
        assert weights_RS.shape == (2, step)
        assert state.history_RTD.shape == (2, step + 1, 7)
        torch.testing.assert_close(state.history_RTD[:, -1], state.layers[-1][0])
    assert not state.history_RTD[:, 0].any(), "h_0 = 0"


@pytest.mark.parametrize("embedding", [7, 14, 5])
@pytest.mark.parametrize("score", ["none", "general"])
def test_tied_at_every_width(score: str, embedding: int) -> None:
    """7 is the state's width, 14 that of [c_t; s_t]."""
    check(*make({"kind": "gru"}, {"score": score}, tie="target", embedding=embedding))
