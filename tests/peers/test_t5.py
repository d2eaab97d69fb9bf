"""Relative position biases against those of Hugging Face's T5."""

from __future__ import annotations

import pytest
import torch

from weft.attention.relative_positions import T5Bias

DISTANCES = [*range(-300, 301), -100_000, 100_000]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets(bidirectional: bool) -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    theirs = modeling.T5Attention._relative_position_bucket(
        torch.tensor(DISTANCES), bidirectional=bidirectional, num_buckets=32, max_distance=128
    )
    assert T5Bias(3, bidirectional=bidirectional).bucket(torch.tensor(DISTANCES)).tolist() == theirs.tolist()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_bias(bidirectional: bool) -> None:
    """T5Attention.compute_bias, for positions 0 … 40 over 0 … 40, with the same table."""
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = pytest.importorskip("transformers").T5Config(num_heads=3, d_model=12, d_kv=4, is_decoder=not bidirectional)
    peer = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    module = T5Bias(3, bidirectional=bidirectional)
    with torch.no_grad():
        peer.relative_attention_bias.weight.copy_(module.weight_KH)
    positions = torch.arange(41)
    torch.testing.assert_close(module(positions - positions[:, None])[None], peer.compute_bias(41, 41), rtol=0, atol=0)
