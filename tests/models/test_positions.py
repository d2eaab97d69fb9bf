"""models/positions.py: known values, tables that grow, and the limit of learned ones. (views has a test_positions.)"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from oracles.transformer import sinusoid
from weft.errors import DataError
from weft.models import AnyModel
from weft.models.build import build_model
from weft.models.positions import Learned, Sinusoidal, sinusoids
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.tree import select


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
    """Odd widths end with a sine whose cosine has no room."""
    slow = torch.tensor([sinusoid(place, width) for place in range(29)], dtype=torch.float64)
    torch.testing.assert_close(sinusoids(29, width), slow, rtol=0, atol=1e-13)


def test_no_places_and_no_width() -> None:
    assert sinusoids(0, 6).shape == (0, 6)
    assert sinusoids(3, 0).shape == (3, 0)


@pytest.mark.parametrize("width", [4, 7])
def test_the_table_grows(width: int) -> None:
    """It begins with 512 places; a longer sequence finds the waves going on, and earlier places unchanged."""
    module = Sinusoidal(width)
    before = module(torch.arange(512), 512)
    assert len(module.table.values_PD) == 512
    places = torch.tensor([0, 511, 512, 700, 1200])
    found = module(places, 1201)
    assert len(module.table.values_PD) >= 1201
    assert found.dtype == torch.float32
    slow = torch.tensor([sinusoid(place, width) for place in places.tolist()])
    torch.testing.assert_close(found, slow, rtol=0, atol=1e-6)
    torch.testing.assert_close(module(torch.arange(512), 512), before, rtol=0, atol=0)


def test_the_table_is_not_saved() -> None:
    """It follows from the width, and its length depends on what was read."""
    assert not Sinusoidal(6).state_dict()


def test_a_grown_table_keeps_its_type() -> None:
    module = Sinusoidal(6).to(torch.bfloat16)
    assert module(torch.tensor([600]), 601).dtype == torch.bfloat16


def test_learned_positions_are_their_table() -> None:
    module = Learned(5, count=7)
    places = torch.tensor([6, 0, 3, 0])
    torch.testing.assert_close(module(places, 7), module.weight_PD[places], rtol=0, atol=0)
    module(places, 7).sum().backward()
    assert module.weight_PD.grad[:, 0].tolist() == [2, 0, 0, 1, 0, 0, 1]


def test_learned_positions_have_an_end() -> None:
    with pytest.raises(DataError) as caught:
        Learned(5, count=7)(torch.arange(8), 8)
    assert str(caught.value) == (
        "a sequence of 8 tokens: this model has learned 7 positions (max_positions); "
        "shorten it, or train with other positions, for example 'rotary'"
    )


def small(kind: str = "seq2seq", **stack: Any) -> AnyModel:
    """A model whose stacks have learned 11 places."""
    layers = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 5, "max_positions": 11}
    stack = {**layers, "positions": "learned", **stack}
    settings = {"kind": kind, "embedding": 6, "dropout": 0.0, "encoder": stack, "decoder": stack}
    return build_model(ModelSettings.model_validate(settings), source_size=13, target_size=13).eval()


def test_a_model_says_so_too() -> None:
    """On each side, up to the limit and past it; a prefix model counts both sides together."""
    model = small()
    model(Ragged.of([[3] * 11, [4]]), Ragged.of([[1] * 11, [1]]))
    for source, target in ((12, 2), (2, 12)):
        with pytest.raises(DataError, match="a sequence of 12 tokens"):
            model(Ragged.of([[3] * source, [4]]), Ragged.of([[1] * target, [1]]))
    prefix = small("prefix_lm")
    prefix(Ragged.of([[3] * 5, [4]]), Ragged.of([[1] * 6, [1]]))
    with pytest.raises(DataError, match="a sequence of 12 tokens"):
        prefix(Ragged.of([[3] * 5, [4]]), Ragged.of([[1] * 7, [1]]))


def test_a_search_says_so_too() -> None:
    model = small()
    memory = model.encode(Ragged.of([[3, 4]]))
    state = model.start(memory)
    for _ in range(11):
        _, state, _ = model.step(torch.tensor([5]), state, memory)
    with pytest.raises(DataError, match="a sequence of 12 tokens"):
        model.step(torch.tensor([5]), state, memory)


def test_a_prefix_model_counts_each_row_by_itself() -> None:
    """A long source with a short target beside a short source with a long one: both have room."""
    model = small("prefix_lm")
    sources, inputs = [[3] * 9, [4]], [[1], [1] * 9]
    together = model(Ragged.of(sources), Ragged.of(inputs)).logits_NV
    alone = [model(Ragged.of([source]), Ragged.of([target])) for source, target in zip(sources, inputs, strict=True)]
    torch.testing.assert_close(together, torch.cat([said.logits_NV for said in alone]))


def test_a_prefix_search_counts_each_row_by_itself() -> None:
    """A short source goes on when a long one beside it has stopped."""
    model = small("prefix_lm")
    memory = model.encode(Ragged.of([[3] * 9, [4]]))
    state = model.start(memory)
    for _ in range(2):
        _, state, _ = model.step(torch.tensor([5, 5]), state, memory)
    state, memory = select((state, memory), torch.tensor([1]))
    for _ in range(8):
        _, state, _ = model.step(torch.tensor([5]), state, memory)
