"""States of fixed capacity: which parts of a tree get one, and that they can be emptied."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.attention.multihead import KeysValues
from weft.fast.steps.cached_transformer import CachedState, CachedStateWithAttention
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.models.prefix_lm import PrefixState
from weft.models.transformer_decoder import TransformerState


class Growing(NamedTuple):
    """A state with a method of its own."""

    values_RT: Tensor

    def with_capacity(self, tokens: int, *, return_attention: bool) -> Growing:
        return Growing(torch.zeros(len(self.values_RT), tokens + return_attention))


class Pair(NamedTuple):
    left: object
    right: object


def layers(length: int) -> tuple[KeysValues, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(KeysValues(*torch.randn(2, 3, 2, length, 5, generator=generator)) for _ in range(2))


def test_transformer_states_get_a_cache() -> None:
    for state in (TransformerState(layers(4)), PrefixState(layers(4))):
        fixed = fixed_capacity(state, 7, return_attention=False)
        assert type(fixed) is CachedState and int(fixed.cache.length) == 4 and fixed.cache.capacity == 39
        torch.testing.assert_close(fixed.cache.layers[1].values[:, :, :4], state.layers[1].values)
        assert type(fixed_capacity(state, 7, return_attention=True)) is CachedStateWithAttention
        assert fixed_capacity(fixed, 3, return_attention=False).cache.capacity == 42


def test_within_a_tree() -> None:
    rows_R = torch.arange(3)
    tree = Pair(rows_R, (Growing(torch.arange(6).view(3, 2)), None))
    fixed = fixed_capacity(tree, 7, return_attention=True)
    assert isinstance(fixed, Pair) and fixed.left is rows_R
    assert isinstance(fixed.right, tuple) and fixed.right[0].values_RT.shape == (3, 8)
