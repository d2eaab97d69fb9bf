"""Attention of one search step against whole rows and against loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracles.attention import slow_attention
from weft.attention.multihead import StepKeysValues, step_attention
from weft.attention.ragged_attention import AttentionRecords, RaggedAttention
from weft.ragged import Layout, Ragged, additive_mask

WIDTH = 5
HEADS = [(1, 1), (3, 3), (6, 2), (3, 1)]


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_one_part(heads: int, kv_heads: int, hypotheses: int) -> None:
    """Rows of one source side by side, each as a query of that source's row."""
    keys = Layout(torch.tensor([5, 3, 1, 7]))
    queries = Layout(torch.tensor([hypotheses] * 4))
    queries_NHD, keys_NHD, values_NHD = (
        draw(queries.total, heads, WIDTH),
        draw(keys.total, kv_heads, WIDTH, seed=11),
        draw(keys.total, kv_heads, WIDTH, seed=29),
    )
    keys_BHSD, values_BHSD = (Ragged(part, keys).to_padded().transpose(1, 2) for part in (keys_NHD, values_NHD))
    source = StepKeysValues(keys_BHSD, values_BHSD, additive_mask(keys.masked_BS, torch.float64)[:, None, None])
    outputs_RHD, weights_RHS = step_attention(queries_NHD, [source])
    records = AttentionRecords(True, None)
    expected = RaggedAttention("cross", queries, keys).attend(
        queries_NHD, keys_NHD, values_NHD, recorder=records.recorder(0)
    )
    torch.testing.assert_close(outputs_RHD, expected)
    torch.testing.assert_close(weights_RHS, records[0].weights_BHTS.transpose(1, 2).flatten(0, 1))


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_two_parts(heads: int, kv_heads: int, hypotheses: int) -> None:
    """A source shared by its hypotheses and the history of each: the same as one row of both."""
    sources, rows, length = 2, 2 * hypotheses, 7
    queries_RHD = draw(rows, heads, WIDTH)
    source = StepKeysValues(
        draw(sources, kv_heads, 3, WIDTH, seed=5),
        draw(sources, kv_heads, 3, WIDTH, seed=6),
        draw(sources, heads, 1, 3, seed=9),
    )
    history = StepKeysValues(
        draw(rows, kv_heads, length, WIDTH, seed=7),
        draw(rows, kv_heads, length, WIDTH, seed=8),
        draw(1, heads, 1, length, seed=10),
    )
    outputs_RHD, weights_RHS = step_attention(queries_RHD, [source, history])
    for row in range(rows):
        number = row // hypotheses
        keys = torch.cat([source.keys_BHSD[number], history.keys_BHSD[row]], 1).transpose(0, 1)
        values = torch.cat([source.values_BHSD[number], history.values_BHSD[row]], 1).transpose(0, 1)
        assert source.bias is not None and history.bias is not None
        bias = torch.cat([source.bias[number], history.bias[0]], -1)
        outputs, weights = slow_attention(
            [queries_RHD[row].tolist()], keys.tolist(), values.tolist(), bias=bias.tolist()
        )
        torch.testing.assert_close(outputs_RHD[row], torch.tensor(outputs[0], dtype=torch.float64))
        torch.testing.assert_close(weights_RHS[row], torch.tensor(weights, dtype=torch.float64)[:, 0])


def test_empty_sources() -> None:
    """As in `RaggedAttention`, the outputs are 0."""
    none, mask = torch.zeros(2, 1, 0, WIDTH), torch.zeros(2, 1, 1, 0)
    outputs_RHD, weights_RHS = step_attention(torch.ones(6, 2, WIDTH), [StepKeysValues(none, none, mask)])
    assert outputs_RHD.shape == (6, 2, WIDTH) and not outputs_RHD.any()
    assert weights_RHS.shape == (6, 2, 0)


def test_gradients() -> None:
    shapes = [(4, 2, 3), (2, 1, 5, 3), (2, 1, 5, 3), (4, 1, 2, 3), (4, 1, 2, 3)]
    tensors = [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]

    def outputs(queries: Tensor, *parts: Tensor) -> Tensor:
        return step_attention(queries, [StepKeysValues(*parts[:2]), StepKeysValues(*parts[2:])])[0]

    assert torch.autograd.gradcheck(outputs, tensors, fast_mode=True)
