from __future__ import annotations

import pytest
import torch

from weft.models.recurrent import RecurrentEncoder
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS


def embedded() -> Ragged:
    torch.manual_seed(1)
    return Ragged.of([[0] * length for length in (3, 1, 5)]).like(torch.randn(9, 5))


def make(kind: str, *, bidirectional: bool = False, reverse_source: bool = False) -> RecurrentEncoder:
    torch.manual_seed(2)
    encoder = {"kind": kind, "hidden": 6, "layers": 2, "bidirectional": bidirectional, "reverse_source": reverse_source}
    return RecurrentEncoder(ModelSettings.model_validate({"embedding": 5, "dropout": 0.0, "encoder": encoder}))


@pytest.mark.parametrize("kind", CELLS)
def test_back_to_front_is_a_forward_encoder_on_reversed_sources(kind: str) -> None:
    """The last state has read the first token last (Sutskever et al. 2014); each state stays with its token."""
    states, final, *_ = make(kind, reverse_source=True)(embedded())
    expected, expected_final, *_ = make(kind)(embedded().reversed())
    torch.testing.assert_close(states.reversed().values, expected.values)
    torch.testing.assert_close(final, expected_final)


@pytest.mark.parametrize("kind", CELLS)
def test_final_state_is_where_each_direction_stopped(kind: str) -> None:
    states, final, *_ = make(kind, bidirectional=True)(embedded())
    for row, states_TD in enumerate(states.split()):
        torch.testing.assert_close(final[-1][0][row], torch.cat([states_TD[-1, :3], states_TD[0, 3:]]))
    states, final, *_ = make(kind)(embedded())
    torch.testing.assert_close(final[-1][0], torch.stack([row[-1] for row in states.split()]))


@pytest.mark.parametrize("kind", CELLS)
def test_both_directions_see_the_whole_source(kind: str) -> None:
    source = embedded()
    source.values.requires_grad_()
    states = make(kind, bidirectional=True)(source).states
    states.values[6].sum().backward()  # the third row's second state
    has_gradient = source.values.grad.abs().sum(1) > 0
    assert has_gradient.tolist() == [False] * 4 + [True] * 5
