"""Weights without memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.models.unallocated import TooManyWeightsError, UnallocatedWeights


def test_weights_have_a_shape_and_no_memory() -> None:
    with UnallocatedWeights():
        layers = nn.ModuleList(
            [nn.Linear(10**5, 10**6), nn.LSTM(10**5, 10**5), nn.Embedding(7, 10**9), nn.LayerNorm(5)]
        )
        nn.init.orthogonal_(layers[1].weight_hh_l0.data.split(10**5)[1])
        layers[0].weight[3:5].data.fill_(1.0)
        other = torch.zeros(3, dtype=torch.int64)
        computed = torch.arange(3.0) + 1
    assert all(weights.untyped_storage().nbytes() == 4 for weights in layers.parameters())
    assert layers[0].weight.shape == (10**6, 10**5) and layers[1].bias_hh_l0.shape == (4 * 10**5,)
    assert other.untyped_storage().nbytes() == 24 and computed.tolist() == [1, 2, 3]
    norm = layers[3]
    norm.weight.data = torch.arange(5.0)
    norm.bias.data = torch.ones(5)
    assert norm(torch.arange(5.0)).isfinite().all() and torch.empty(3).untyped_storage().nbytes() == 12


def test_too_many_weights() -> None:
    with UnallocatedWeights(max_weights=12):
        nn.Linear(3, 3)
    with pytest.raises(TooManyWeightsError), UnallocatedWeights(max_weights=11):
        nn.Linear(3, 3)
