"""Multi-head attention: projections and heads against loops, steps against whole rows, and against PyTorch's own."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from oracles.attention import rows_of, slow_attention
from weft.attention.multihead import (
    CrossAttention,
    Heads,
    KeysValues,
    MultiHeadAttention,
    SelfAttention,
    StepKeysValues,
)
from weft.attention.ragged_attention import AttentionRecords, RaggedAttention
from weft.attention.relative_positions import rotation
from weft.ragged import Layout

LENGTHS, SOURCE_LENGTHS = [3, 1, 5, 2], [2, 7, 1, 3]
HEADS = [(1, 1), (3, 3), (6, 2), (6, 1)]
WIDTH, SOURCE_WIDTH = 12, 7
Module = TypeVar("Module", bound=MultiHeadAttention)


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def self_attention(heads: int, kv_heads: int) -> SelfAttention:
    torch.manual_seed(5)
    return with_biases(SelfAttention(WIDTH, Heads(heads, kv_heads, WIDTH // heads)))


def cross_attention(heads: int, kv_heads: int) -> CrossAttention:
    torch.manual_seed(5)
    return with_biases(CrossAttention(WIDTH, SOURCE_WIDTH, Heads(heads, kv_heads, WIDTH // heads)))


def with_biases(module: Module) -> Module:
    """In double precision, with biases that are not zero."""
    for name, parameter in module.double().named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return module


def layout(lengths: list[int]) -> Layout:
    return Layout(torch.tensor(lengths))


def projected(x: list[float], linear: nn.Linear, first: int, count: int, width: int) -> list[list[float]]:
    """``count`` heads, from number ``first`` on, of those that a matrix projects x to."""
    weights, biases = linear.weight.tolist(), linear.bias.tolist()
    return [
        [
            sum(w * v for w, v in zip(weights[row], x, strict=True)) + biases[row]
            for row in range(head * width, (head + 1) * width)
        ]
        for head in range(first, first + count)
    ]


def joined(module: MultiHeadAttention, heads: list[list[list[float]]]) -> Tensor:
    """[head_1; …; head_H] W^O + b for every token."""
    tokens = [[value for head in token for value in head] for token in heads]
    return torch.tensor([projected(token, module.output, 0, 1, WIDTH)[0] for token in tokens], dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_self_attention(heads: int, kv_heads: int, causal: bool) -> None:
    module, own = self_attention(heads, kv_heads), layout(LENGTHS)
    stream_ND = draw(sum(LENGTHS), WIDTH)
    output_ND = module(stream_ND, RaggedAttention("decoder", own, own, causal=causal))
    width, linear = WIDTH // heads, module.query_key_value
    for row, xs in enumerate(rows_of(stream_ND, LENGTHS)):
        expected, _ = slow_attention(
            [projected(x, linear, 0, heads, width) for x in xs],
            [projected(x, linear, heads, kv_heads, width) for x in xs],
            [projected(x, linear, heads + kv_heads, kv_heads, width) for x in xs],
            attends=(lambda i, j: j <= i) if causal else (lambda i, j: True),
        )
        torch.testing.assert_close(output_ND.split(LENGTHS)[row], joined(module, expected))


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_cross_attention(heads: int, kv_heads: int) -> None:
    module, width = cross_attention(heads, kv_heads), WIDTH // heads
    stream_ND, source_MD = draw(sum(LENGTHS), WIDTH), draw(sum(SOURCE_LENGTHS), SOURCE_WIDTH)
    output_ND = module(stream_ND, source_MD, RaggedAttention("cross", layout(LENGTHS), layout(SOURCE_LENGTHS)))
    rows = zip(rows_of(stream_ND, LENGTHS), rows_of(source_MD, SOURCE_LENGTHS), strict=True)
    for row, (xs, source) in enumerate(rows):
        expected, _ = slow_attention(
            [projected(x, module.query, 0, heads, width) for x in xs],
            [projected(state, module.key_value, 0, kv_heads, width) for state in source],
            [projected(state, module.key_value, kv_heads, kv_heads, width) for state in source],
        )
        torch.testing.assert_close(output_ND.split(LENGTHS)[row], joined(module, expected))


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_steps_equal_causal_self_attention(heads: int, kv_heads: int, rotary: bool) -> None:
    """Token by token with a growing history, and with a bias that depends on the distance."""
    module, width, rows, length = self_attention(heads, kv_heads), WIDTH // heads, 3, 5
    stream_BTD = draw(rows, length, WIDTH)
    own, bias = layout([length] * rows), draw(1, heads, length, length)
    whole_rotation = rotation(torch.arange(length).repeat(rows), width, torch.float64) if rotary else None
    records = AttentionRecords(True, None)
    pattern = RaggedAttention("decoder", own, own, causal=True, bias=bias)
    whole = module(stream_BTD.flatten(0, 1), pattern, whole_rotation, records.recorder(0))
    none = torch.zeros(rows, kv_heads, 0, width, dtype=torch.float64)
    history = KeysValues(none, none)
    for time in range(length):
        step_rotation = rotation(torch.full((rows,), time), width, torch.float64) if rotary else None
        step_bias = bias[:, :, time : time + 1, : time + 1]
        step = (stream_BTD[:, time], history, step_rotation, step_bias, None)
        output_RD, history, weights_RHS = module.step(*step)
        torch.testing.assert_close(output_RD, whole.unflatten(0, (rows, length))[:, time])
        torch.testing.assert_close(weights_RHS, records[0].weights_BHTS[:, :, time, : time + 1])
        assert history.keys.shape == history.values.shape == (rows, kv_heads, time + 1, width)
    for part, stored in zip(module.keys_values(stream_BTD.flatten(0, 1), whole_rotation), history, strict=True):
        torch.testing.assert_close(part.unflatten(0, (rows, length)).transpose(1, 2), stored)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_steps_equal_cross_attention(heads: int, kv_heads: int) -> None:
    """Three hypotheses per source, side by side."""
    module = cross_attention(heads, kv_heads)
    stream_RD, source_MD = draw(6, WIDTH), draw(10, SOURCE_WIDTH)
    records = AttentionRecords(True, None)
    pattern = RaggedAttention("cross", layout([3, 3]), layout([5, 5]))
    whole = module(stream_RD, source_MD, pattern, records.recorder(0))
    source = StepKeysValues(*(part.unflatten(0, (2, 5)).transpose(1, 2) for part in module.keys_values(source_MD)))
    output_RD, weights_RHS = module.step(stream_RD, source)
    torch.testing.assert_close(output_RD, whole)
    torch.testing.assert_close(weights_RHS, records[0].weights_BHTS.transpose(1, 2).flatten(0, 1))


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_equals_pytorchs_multi_head_attention(heads: int) -> None:
    """Whose in-projection has our layout: all queries, all keys, all values."""
    module = self_attention(heads, heads)
    peer = nn.MultiheadAttention(WIDTH, heads, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        peer.in_proj_weight.copy_(module.query_key_value.weight)
        peer.in_proj_bias.copy_(module.query_key_value.bias)
        peer.out_proj.weight.copy_(module.output.weight)
        peer.out_proj.bias.copy_(module.output.bias)
    own = layout(LENGTHS)
    stream_ND = draw(sum(LENGTHS), WIDTH)
    records = AttentionRecords(True, None)
    output_ND = module(stream_ND, RaggedAttention("encoder", own, own), None, records.recorder(0))
    for row, xs_TD in enumerate(stream_ND.split(LENGTHS)):
        expected, weights = peer(xs_TD[None], xs_TD[None], xs_TD[None], average_attn_weights=False)
        torch.testing.assert_close(output_ND.split(LENGTHS)[row], expected[0])
        length = LENGTHS[row]
        torch.testing.assert_close(records[0].weights_BHTS[row, :, :length, :length], weights[0])


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_initialization(heads: int, kv_heads: int) -> None:
    """Each projection is Glorot's by its own size, though it shares a matrix with others; biases are zero."""
    width, source_width = 120, 70
    torch.manual_seed(6)
    own = SelfAttention(width, Heads(heads, kv_heads, width // heads))
    cross = CrossAttention(width, source_width, Heads(heads, kv_heads, width // heads))
    kv_width = kv_heads * width // heads
    projections = {
        "queries": (own.query_key_value.weight[:width], width, width),
        "keys": (own.query_key_value.weight[width : width + kv_width], width, kv_width),
        "values": (own.query_key_value.weight[width + kv_width :], width, kv_width),
        "output": (own.output.weight, width, width),
        "cross queries": (cross.query.weight, width, width),
        "cross keys": (cross.key_value.weight[:kv_width], source_width, kv_width),
        "cross values": (cross.key_value.weight[kv_width:], source_width, kv_width),
    }
    for name, (weight, inputs, outputs) in projections.items():
        assert weight.shape == (outputs, inputs), name
        bound = (6 / (inputs + outputs)) ** 0.5
        assert 0.97 * bound <= float(weight.detach().abs().max()) <= bound, name
    for linear in (own.query_key_value, own.output, cross.query, cross.key_value, cross.output):
        assert not linear.bias.any()


def test_dropout_only_in_training() -> None:
    torch.manual_seed(7)
    module = SelfAttention(WIDTH, Heads(3, 3, WIDTH // 3), dropout=0.5).double()
    own, stream_ND = layout(LENGTHS), draw(sum(LENGTHS), WIDTH)
    pattern = RaggedAttention("encoder", own, own)
    assert not torch.equal(module(stream_ND, pattern), module(stream_ND, pattern))
    module.eval()
    torch.testing.assert_close(module(stream_ND, pattern), module(stream_ND, pattern))
