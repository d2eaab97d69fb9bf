"""Attention by PyTorch's function against the equation, with gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.normalizers import sparsemax
from weft.attention.ragged_attention import RaggedAttention
from weft.fast.layers.transformer import applies_to_padded, attend_padded
from weft.ragged import Layout
from weft.runtime.replaceable import plain_of

plain_attend = plain_of(RaggedAttention.attend)


def draw(count: int, heads: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, heads, 5, dtype=torch.float64, generator=generator, requires_grad=True)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("lengths", [([4, 1, 7], [4, 1, 7]), ([3, 2], [5, 6]), ([4, 4], [4, 4])])
def test_equal_to_the_equation(lengths: tuple[list[int], list[int]], kv_heads: int, causal: bool, biased: bool) -> None:
    queries, keys = (Layout(torch.tensor(part)) for part in lengths)
    keys = queries if lengths[0] == lengths[1] else keys
    bias = torch.randn(1, 3, queries.longest, keys.longest, dtype=torch.float64) if biased else None
    pattern = RaggedAttention("decoder", queries, keys, causal=causal, bias=bias)
    results = []
    for function in (attend_padded, plain_attend):
        parts = draw(queries.total, 3, 1), draw(keys.total, kv_heads, 2), draw(keys.total, kv_heads, 3)
        outputs_NHD = function(pattern, *parts)
        (
            outputs_NHD * torch.linspace(-1, 1, outputs_NHD.numel(), dtype=torch.float64).view_as(outputs_NHD)
        ).sum().backward()
        results.append((outputs_NHD, *(part.grad for part in parts)))
    torch.testing.assert_close(*results)


def test_not_for_returned_weights_or_other_normalizers() -> None:
    layout = Layout(torch.tensor([2]))
    pattern, values_NHD = RaggedAttention("decoder", layout, layout), draw(2, 1, 1)
    given = (pattern, values_NHD, values_NHD, values_NHD)
    assert applies_to_padded(*given) and applies_to_padded(*given, dropout=0.1)
    assert not applies_to_padded(*given, normalize=sparsemax)
    assert not applies_to_padded(*given, recorder=lambda kind, weights_BHTS: None)
