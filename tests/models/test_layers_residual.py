"""The residual connection around a sub-layer against its equation."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from weft.models.layers import ResidualBlock
from weft.recipe import TransformerSettings


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_both_placements_of_the_norm(placement: str) -> None:
    """pre: x + f(norm(x)); post: norm(x + f(x))."""
    torch.manual_seed(1)
    settings = TransformerSettings(
        kind="transformer", hidden=6, heads=2, norm_placement=placement, residual_dropout=0.0
    )
    block = ResidualBlock(settings)
    stream_ND, output_ND = torch.randn(5, 6), torch.randn(5, 6)
    normalized_ND = functional.layer_norm(stream_ND, (6,))
    torch.testing.assert_close(block.input(stream_ND), normalized_ND if placement == "pre" else stream_ND)
    expected_ND = stream_ND + output_ND
    if placement == "post":
        expected_ND = functional.layer_norm(expected_ND, (6,))
    torch.testing.assert_close(block.add(stream_ND, output_ND), expected_ND, rtol=1e-4, atol=1e-5)
