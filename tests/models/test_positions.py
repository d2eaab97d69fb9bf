"""Absolute positions: known values, tables that grow, and the limit of learned positions."""

from __future__ import annotations

import math
import weakref

import pytest
import torch

from oracles.transformer import sinusoid
from weft.errors import DataError
from weft.models.build import build_model
from weft.models.positions import Learned, Sinusoidal, sinusoids
from weft.ragged import Ragged
from weft.recipe import ModelSettings


def test_the_lecture_s_table() -> None:
    """n = 5, d = 4. Row 1 has sin(1/100) = 0.0100 in its third column, not the often-copied 0.0017."""
    expected = [
        [0.0000, 1.0000, 0.0000, 1.0000],
        [0.8415, 0.5403, 0.0100, 1.0000],
        [0.9093, -0.4161, 0.0200, 0.9998],
        [0.1411, -0.9900, 0.0300, 0.9996],
        [-0.7568, -0.6536, 0.0400, 0.9992],
    ]
    torch.testing.assert_close(sinusoids(5, 4), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=5e-5)
    row = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    torch.testing.assert_close(sinusoids(5, 4)[1], torch.tensor(row, dtype=torch.float64), rtol=0, atol=1e-15)
    assert sinusoids(5, 4)[1, 2:].tolist() == pytest.approx([0.0099998333, 0.9999500004], abs=1e-10)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 12, 13])
def test_the_formula(width: int) -> None:
    """Odd widths end with a sine without its cosine."""
    slow = torch.tensor([sinusoid(position, width) for position in range(29)], dtype=torch.float64)
    torch.testing.assert_close(sinusoids(29, width), slow, rtol=0, atol=1e-13)


@pytest.mark.parametrize("width", [4, 7, 12])
@pytest.mark.parametrize("layout", ["halves", "tensor2tensor"])
def test_other_layouts(layout: str, width: int) -> None:
    slow = torch.tensor([sinusoid(position, width, layout) for position in range(2, 31)], dtype=torch.float64)
    torch.testing.assert_close(sinusoids(29, width, layout=layout, first=2), slow, rtol=0, atol=1e-13)
    module = Sinusoidal(width, layout=layout, first=2)
    torch.testing.assert_close(module(torch.tensor([28, 0]), 29), slow[[28, 0]].float(), rtol=0, atol=1e-6)
    grown = torch.tensor([sinusoid(702, width, layout)], dtype=torch.float32)
    torch.testing.assert_close(module(torch.tensor([700]), 701), grown, rtol=0, atol=1e-6)


def test_no_positions_and_no_width() -> None:
    assert sinusoids(0, 6).shape == (0, 6)
    assert sinusoids(3, 0).shape == (3, 0)


@pytest.mark.parametrize("width", [4, 7])
def test_the_table_grows(width: int) -> None:
    """It begins with 512 positions; longer sequences extend it and leave earlier positions unchanged."""
    module = Sinusoidal(width)
    before = module(torch.arange(512), 512)
    assert len(module.table.values_PD) == 512
    positions = torch.tensor([0, 511, 512, 700, 1200])
    extended = module(positions, 1201)
    assert len(module.table.values_PD) >= 1201
    assert extended.dtype == torch.float32
    slow = torch.tensor([sinusoid(position, width) for position in positions.tolist()])
    torch.testing.assert_close(extended, slow, rtol=0, atol=1e-6)
    torch.testing.assert_close(module(torch.arange(512), 512), before, rtol=0, atol=0)


def test_smaller_tables_stay_alive() -> None:
    """CUDA graphs that were captured before the table grew read from their memory."""
    module = Sinusoidal(4)
    before = weakref.ref(module.table.values_PD)
    module(torch.tensor([600]), 601)
    assert before() is not None and before() is not module.table.values_PD


def test_the_table_is_not_saved() -> None:
    """It follows from the width, and its length depends on the sequences so far."""
    assert not Sinusoidal(6).state_dict()


def test_a_grown_table_keeps_its_type() -> None:
    module = Sinusoidal(6).to(torch.bfloat16)
    assert module(torch.tensor([600]), 601).dtype == torch.bfloat16


def test_learned_positions_are_their_table() -> None:
    module = Learned(5, count=7)
    positions = torch.tensor([6, 0, 3, 0])
    torch.testing.assert_close(module(positions, 7), module.weight_PD[positions], rtol=0, atol=0)
    module(positions, 7).sum().backward()
    assert module.weight_PD.grad[:, 0].tolist() == [2, 0, 0, 1, 0, 0, 1]


def test_learned_positions_have_an_end() -> None:
    with pytest.raises(DataError) as caught:
        Learned(5, count=7)(torch.arange(8), 8)
    assert str(caught.value) == (
        "a sequence of 8 tokens: this model has learned 7 positions (max_positions); "
        "shorten it, or train with other positions, for example 'rotary'"
    )


def test_a_model_has_that_limit_on_both_sides_and_in_a_search() -> None:
    stack = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 5}
    learned = {**stack, "positions": "learned", "max_positions": 11}
    settings = {"embedding": 6, "dropout": 0.0, "encoder": learned, "decoder": learned}
    model = build_model(ModelSettings.model_validate(settings), source_size=13, target_size=13).eval()
    model(Ragged.of([[3] * 11, [4]]), Ragged.of([[1] * 11, [1]]))
    for source, target in ((12, 2), (2, 12)):
        with pytest.raises(DataError, match="a sequence of 12 tokens"):
            model(Ragged.of([[3] * source, [4]]), Ragged.of([[1] * target, [1]]))
    memory = model.encode(Ragged.of([[3, 4]]))
    state = model.start(memory)
    for _ in range(11):
        _, state, _ = model.step(torch.tensor([5]), state, memory)
    with pytest.raises(DataError, match="a sequence of 12 tokens"):
        model.step(torch.tensor([5]), state, memory)
