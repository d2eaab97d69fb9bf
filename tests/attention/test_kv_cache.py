"""A cache of fixed capacity: the same outputs as a history that grows, whatever rows are selected on the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.kv_cache import KVCache
from weft.attention.step_attention import KeysValues, StepKeysValues, step_attention

HEADS, WIDTH, LAYERS = 6, 5, 2


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("biased", [False, True])
def test_steps(biased: bool, kv_heads: int, start: int) -> None:
    """From an empty or a filled history, with rows selected and dropped and the capacity extended."""
    rows, capacity = 4, 4
    growing = [KeysValues(*draw(2, rows, kv_heads, start, WIDTH, seed=layer).unbind(0)) for layer in range(LAYERS)]
    cache = KVCache.of(tuple(growing), capacity)
    for time in range(start, 9):
        if time == cache.capacity:
            cache = cache.with_capacity(2 * time, return_attention=False)
            assert cache.capacity == 2 * time
        assert cache.length.tolist() == [time]
        bias_HT = draw(HEADS, cache.capacity, seed=time) if biased else None
        for layer in range(LAYERS):
            projected_RHD = draw(rows, HEADS + 2 * kv_heads, WIDTH, seed=100 * time + layer)
            queries_RHD, keys_RHD, values_RHD = projected_RHD.split([HEADS, kv_heads, kv_heads], 1)
            history = growing[layer] = KeysValues(
                torch.cat([growing[layer].keys, keys_RHD[:, :, None]], 2),
                torch.cat([growing[layer].values, values_RHD[:, :, None]], 2),
            )
            bias = None if bias_HT is None else bias_HT[None, :, None, : time + 1]
            expected, _ = step_attention(queries_RHD, [StepKeysValues(*history, bias)])
            torch.testing.assert_close(cache.step(layer, projected_RHD, bias_HT), expected)
        cache = cache._replace(length=cache.length + 1)
        chosen = torch.randint(rows, (rows,), generator=torch.Generator().manual_seed(time))
        cache = cache.select_rows(chosen)
        if time == 5:
            rows -= 1
            cache, chosen = cache.keep_rows(torch.arange(rows)), chosen[:rows]
            assert len(cache.layers[0].keys) == rows
        growing = [KeysValues(layer.keys[chosen], layer.values[chosen]) for layer in growing]


def test_capacity_never_shrinks() -> None:
    none = torch.zeros(2, 1, 0, WIDTH)
    cache = KVCache.of((KeysValues(none, none),), 8)
    assert cache.with_capacity(4, return_attention=False) is cache
