"""The attention of short rows equals the padded path, in value and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention import ragged_attention
from weft.attention.ragged_attention import PrefixAttention, RaggedAttention
from weft.kernels.adjacent_heads import are_adjacent, split_heads
from weft.kernels.cpu.short_attention import LONGEST, ShortAttention, has_short_attention
from weft.ragged import Layout

HEADS, WIDTH = 3, 5
RAGGED, RECTANGULAR = Layout(torch.tensor([2, 7, 1])), Layout(torch.tensor([4, 4, 4]))


def leaf(tokens: int, parts: int) -> Tensor:
    return torch.randn(tokens, parts * HEADS, WIDTH, dtype=torch.float64, requires_grad=True)


def values_and_gradients(attention: RaggedAttention | PrefixAttention, leaves: list[Tensor]) -> list[Tensor]:
    """Of queries, keys and values that are side by side in as few tensors as the leaves."""
    parts = [part for packed in leaves for part in split_heads(packed, [HEADS] * (packed.shape[1] // HEADS))]
    outputs_NHD = attention.attend(*parts)
    torch.manual_seed(5)
    gradients = torch.autograd.grad(outputs_NHD, leaves, torch.randn_like(outputs_NHD))
    return [outputs_NHD.detach(), *gradients]


def compare(attention: RaggedAttention | PrefixAttention, leaves: list[Tensor]) -> None:
    found = values_and_gradients(attention, leaves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged_attention, "has_short_attention", lambda *_, **__: False)
        expected = values_and_gradients(attention, leaves)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("layout", [RAGGED, RECTANGULAR], ids=["ragged", "rectangular"])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(layout: Layout, causal: bool) -> None:
    torch.manual_seed(3)
    attention = RaggedAttention("decoder", layout, layout, causal=causal)
    compare(attention, [leaf(layout.total, 3)])
    compare(attention, [leaf(layout.total, 1) for _ in range(3)])


@pytest.mark.parametrize("queries", [RAGGED, RECTANGULAR], ids=["ragged", "rectangular"])
@pytest.mark.parametrize("keys", [RAGGED, RECTANGULAR], ids=["ragged keys", "rectangular keys"])
def test_cross_attention(queries: Layout, keys: Layout) -> None:
    torch.manual_seed(3)
    attention = RaggedAttention("cross", queries, keys)
    compare(attention, [leaf(queries.total, 1), leaf(keys.total, 2)])
    compare(attention, [leaf(queries.total, 1), leaf(keys.total, 1), leaf(keys.total, 1)])


def test_rows_without_keys_or_queries() -> None:
    torch.manual_seed(3)
    queries, keys = Layout(torch.tensor([2, 0, 3])), Layout(torch.tensor([0, 2, 4]))
    compare(RaggedAttention("cross", queries, keys), [leaf(queries.total, 1), leaf(keys.total, 2)])


def test_prefix_attention() -> None:
    torch.manual_seed(3)
    compare(PrefixAttention(RAGGED, RECTANGULAR), [leaf(RAGGED.total + RECTANGULAR.total, 3)])


def test_gradients_stay_adjacent() -> None:
    parts = [part.detach().requires_grad_() for part in leaf(RAGGED.total, 3).split(HEADS, 1)]
    outputs_NHD = ShortAttention(RAGGED, RAGGED, None).attend(*parts)
    assert are_adjacent(torch.autograd.grad(outputs_NHD.sum(), parts))


def test_where_it_is_used() -> None:
    queries_NHD = leaf(RAGGED.total, 1)
    layouts = {"queries": RAGGED, "keys": RAGGED}
    assert has_short_attention(queries_NHD, queries_NHD, **layouts)
    assert not has_short_attention(queries_NHD.detach(), queries_NHD.detach(), **layouts)
    assert not has_short_attention(queries_NHD.bfloat16(), queries_NHD.bfloat16(), **layouts)
    assert not has_short_attention(queries_NHD, queries_NHD[:, :1], **layouts)  # heads that share keys
    long = Layout(torch.tensor([LONGEST + 1]))
    assert not has_short_attention(leaf(long.total, 1), leaf(long.total, 1), queries=long, keys=long)
    with torch.no_grad():
        assert not has_short_attention(queries_NHD, queries_NHD, **layouts)
