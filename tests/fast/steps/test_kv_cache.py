"""A cache of fixed capacity: the same outputs as a history that grows, whatever rows are selected on the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.multihead import KeysValues, StepKeysValues, step_attention
from weft.fast.steps.kv_cache import KVCache

HEADS, WIDTH, LAYERS = 6, 5, 2


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("biased", [False, True])
def test_steps(biased: bool, kv_heads: int, start: int) -> None:
    """From an empty or a filled history, with rows selected and dropped and the capacity extended."""
    rows = 4
    growing = [KeysValues(*draw(2, rows, kv_heads, start, WIDTH, seed=layer).unbind(0)) for layer in range(LAYERS)]
    cache = KVCache.of(tuple(growing), 4)
    assert cache.capacity == (32 + 4 if start else 4), "few different capacities, whatever was stored before"
    for time in range(start, 9):
        if time == cache.capacity:
            cache = cache.with_capacity(time, return_attention=False)
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


@pytest.mark.parametrize("kv_heads", [2, 6])
def test_a_prefix_precedes_the_history(kv_heads: int) -> None:
    """Two hypotheses per source; the weights are over the prefix and the cache together."""
    rows, sources, length, width = 6, 3, 7, WIDTH
    none = torch.zeros(rows, kv_heads, 0, width, dtype=torch.float64)
    cache, growing = KVCache.of((KeysValues(none, none),), 4), KeysValues(none, none)
    prefix = StepKeysValues(
        draw(sources, kv_heads, length, width, seed=1), draw(sources, kv_heads, length, width, seed=2),
        draw(sources, HEADS, 1, length, seed=3),
    )  # fmt: skip
    for time in range(4):
        projected_RHD = draw(rows, HEADS + 2 * kv_heads, width, seed=10 + time)
        queries_RHD, keys_RHD, values_RHD = projected_RHD.split([HEADS, kv_heads, kv_heads], 1)
        growing = KeysValues(
            torch.cat([growing.keys, keys_RHD[:, :, None]], 2), torch.cat([growing.values, values_RHD[:, :, None]], 2)
        )
        expected, weights_RHS = step_attention(queries_RHD, [prefix, StepKeysValues(*growing)])
        torch.testing.assert_close(cache.step(0, projected_RHD, None, prefix=prefix), expected)
        outputs, own_RHS = cache.step_with_weights(0, projected_RHD, None, prefix=prefix)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(own_RHS[:, :, : length + time + 1], weights_RHS)
        assert not own_RHS[:, :, length + time + 1 :].any()
        cache = cache._replace(length=cache.length + 1)
