"""Where layers use kernels: never on a CPU. The kernels themselves: tests/fast/triton."""

from __future__ import annotations

import torch
from torch import nn

from weft.fast.layers.layer_kernels import (
    has_feed_forward_kernel,
    has_layer_kernels,
    has_norm_kernel,
    has_recurrent_kernels,
    is_trained_linear,
    linear,
)


def test_not_on_a_cpu() -> None:
    stream_ND = torch.zeros(2, 4, dtype=torch.bfloat16)
    module = nn.Linear(4, 4)
    assert not has_layer_kernels(stream_ND) and not has_recurrent_kernels(stream_ND.float())
    assert not has_norm_kernel(nn.LayerNorm(4), stream_ND)
    assert not has_feed_forward_kernel(module, module, stream_ND)
    inputs_ND = torch.randn(2, 4)
    assert torch.equal(linear(module, inputs_ND), module(inputs_ND))


def test_only_plain_layers_that_are_trained() -> None:
    class Adapted(nn.Linear):
        pass

    frozen = nn.Linear(3, 2).requires_grad_(False)
    assert is_trained_linear(nn.Linear(3, 2))
    assert not any(map(is_trained_linear, (Adapted(3, 2), frozen, nn.Linear(3, 2, bias=False), nn.Identity())))
