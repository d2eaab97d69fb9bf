from __future__ import annotations

import math

import torch

from weft.models.recurrent_decoder import Copy, Project, Zero
from weft.recipe import RecurrentSettings

torch.manual_seed(1)
FINAL = tuple((torch.randn(3, 5), torch.randn(3, 5)) for _ in range(2))


def test_copy_gives_every_layer_its_counterpart() -> None:
    assert Copy()(FINAL) is FINAL


def test_project_is_a_tanh_layer_of_the_top_state_for_every_layer_and_part() -> None:
    bridge = Project(5, RecurrentSettings(kind="lstm", hidden=7, layers=3))
    states = bridge(FINAL)
    assert len(states) == 3 and all(len(state) == 2 for state in states)
    for level, state in enumerate(states):
        for part, state_part in enumerate(state):
            linear = bridge.maps[level * 2 + part]
            for row in range(3):
                expected = [
                    math.tanh(sum(w * x for w, x in zip(weights, FINAL[-1][0][row].tolist(), strict=True)) + bias)
                    for weights, bias in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
                ]
                torch.testing.assert_close(state_part[row], torch.tensor(expected))


def test_zero_gives_nothing_of_the_source() -> None:
    states = Zero(RecurrentSettings(kind="gru", hidden=7, layers=3))(FINAL)
    assert [tuple(part.shape for part in state) for state in states] == [((3, 7),)] * 3
    assert not any(part.any() for state in states for part in state)
