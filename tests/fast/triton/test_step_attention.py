"""Attention of one search step on CUDA against the plain versions on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.multihead import KeysValues, StepKeysValues, step_attention
from weft.fast.steps.kv_cache import KVCache, attention_output
from weft.ragged import additive_mask

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
def test_cached_attention(heads: int, kv_heads: int, biased: bool, prefixed: bool) -> None:
    """Two layers, with hypotheses selected after every step; over a prefix too, with a bias of all heads or of each."""
    rows, width, capacity = 6, 32, 40
    prefix = prefix_there = None
    if prefixed:
        mask_B11S = additive_mask(torch.arange(37) >= torch.tensor([[37], [5]]), torch.float32)[:, None, None]
        bias_BHTS = mask_B11S + draw(2, heads, 1, 37, seed=9) if biased else mask_B11S
        parts = draw(2, 2, kv_heads, 37, width, seed=8).unbind(0)
        prefix = StepKeysValues(*parts, bias_BHTS)
        prefix_there = StepKeysValues(*(part.cuda() for part in parts), bias_BHTS.cuda())
    none = torch.zeros(rows, kv_heads, 0, width)
    plain = KVCache.of((KeysValues(none, none),) * 2, capacity)
    fused = KVCache.of((KeysValues(none.cuda(), none.cuda()),) * 2, capacity)
    for time in range(capacity):
        bias_HT = draw(heads, capacity, seed=time) if biased else None
        for layer in range(2):
            projected_RHD = draw(rows, heads + 2 * kv_heads, width, seed=2 * time + layer)
            expected = plain.step(layer, projected_RHD, bias_HT, prefix=prefix)
            bias = None if bias_HT is None else bias_HT.cuda()
            outputs_RHD = fused.step(layer, projected_RHD.cuda(), bias, prefix=prefix_there)
            torch.testing.assert_close(outputs_RHD.cpu(), expected, rtol=1e-3, atol=1e-4)
        chosen = torch.randint(rows, (rows,), generator=torch.Generator().manual_seed(time))
        plain = plain._replace(length=plain.length + 1).select_rows(chosen)
        fused = fused._replace(length=fused.length + 1).select_rows(chosen.cuda())


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
def test_source_attention(heads: int, kv_heads: int) -> None:
    """Three hypotheses per source, sources of unequal length."""
    queries_RHD = draw(6, heads, 32, seed=1)
    keys_BHSD, values_BHSD = draw(2, kv_heads, 37, 32, seed=2), draw(2, kv_heads, 37, 32, seed=3)
    mask_B11S = additive_mask(torch.arange(37) >= torch.tensor([[37], [5]]), torch.float32)[:, None, None]
    source = StepKeysValues(keys_BHSD, values_BHSD, mask_B11S)
    expected, _ = step_attention(queries_RHD, [source])
    outputs_RHD = attention_output(queries_RHD.cuda(), StepKeysValues(*(part.cuda() for part in source)))
    torch.testing.assert_close(outputs_RHD.cpu(), expected, rtol=1e-3, atol=1e-4)
