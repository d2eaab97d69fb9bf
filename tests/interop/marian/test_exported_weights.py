"""Arrays of Marian: positions as a table."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from weft.interop.marian.exported_weights import POSITIONS, position_table

WIDTH = 6


def literal(position: int, layout: str) -> list[float]:
    """Sines, then cosines; the wavelengths end at 10,000 in one layout, and before it in the other."""
    half = WIDTH // 2
    steps = half - 1 if layout == "tensor2tensor" else half
    angles = [position / 10_000 ** (index / steps) for index in range(half)]
    return [*map(math.sin, angles), *map(math.cos, angles)]


@pytest.mark.parametrize("layout", ["tensor2tensor", "halves"])
@pytest.mark.parametrize("first", [0, 3])
def test_sinusoids(layout: str, first: int) -> None:
    """Row p is the position ``first`` + p."""
    stack = SimpleNamespace(positions="sinusoidal", hidden=WIDTH, sinusoids=layout, first_position=first)
    table_PD = position_table(stack, {}, "encoder")
    assert table_PD.shape == (POSITIONS, WIDTH)
    for row in (0, 1, 17):
        expected = torch.tensor(literal(first + row, layout))
        torch.testing.assert_close(table_PD[row], expected, rtol=0, atol=1e-5)


def test_learned_positions() -> None:
    weight_PD = torch.rand(5, WIDTH)
    table_PD = position_table(
        SimpleNamespace(positions="learned"), {"decoder.stack.positions.weight_PD": weight_PD}, "decoder"
    )
    assert table_PD is weight_PD
