"""Multi-head attention: projections and heads against loops, steps against whole rows, and against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from oracles.attention import rows_of, slow_attention
from weft.attention.multihead import KeysValues, MultiHead
from weft.attention.ragged_attention import AttentionRecord, RaggedAttention, StepKeysValues, recorder_for
from weft.attention.relative_positions import rotation
from weft.ragged import Layout

LENGTHS, ITEMS = [3, 1, 5, 2], [2, 7, 1, 3]
HEADS = [(1, 1), (3, 3), (6, 2), (6, 1)]
WIDTH, ITEM_WIDTH = 12, 7


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def make(heads: int, shared: int, items: int | None = None) -> MultiHead:
    """In double precision, with biases that are not zero."""
    torch.manual_seed(5)
    module = MultiHead(WIDTH, heads=heads, key_value_heads=shared, items=items).double()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return module


def layout(lengths: list[int]) -> Layout:
    return Layout(torch.tensor(lengths))


def mapped(x: list[float], linear: nn.Linear, first: int, count: int, size: int) -> list[list[float]]:
    """``count`` vectors from number ``first`` on, of those that a matrix makes of x."""
    vectors = []
    for number in range(first, first + count):
        rows = range(number * size, (number + 1) * size)
        weights, biases = linear.weight.tolist(), linear.bias.tolist()
        vectors.append([sum(w * v for w, v in zip(weights[row], x, strict=True)) + biases[row] for row in rows])
    return vectors


def joined(module: MultiHead, answers: list[list[list[float]]]) -> Tensor:
    """[head_1; …; head_H] W^O + b for every token."""
    tokens = [[value for head in token for value in head] for token in answers]
    return torch.tensor([mapped(token, module.out, 0, 1, WIDTH)[0] for token in tokens], dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_looking_at_itself(heads: int, shared: int, causal: bool) -> None:
    module, own = make(heads, shared), layout(LENGTHS)
    stream_ND = draw(sum(LENGTHS), WIDTH)
    found_ND = module.look_at_self(stream_ND, RaggedAttention("decoder", own, own, causal=causal))
    size = WIDTH // heads
    assert module.of_self is not None
    for row, xs in enumerate(rows_of(stream_ND, LENGTHS)):
        answers, _ = slow_attention(
            [mapped(x, module.of_self, 0, heads, size) for x in xs],
            [mapped(x, module.of_self, heads, shared, size) for x in xs],
            [mapped(x, module.of_self, heads + shared, shared, size) for x in xs],
            sees=(lambda i, j: j <= i) if causal else (lambda i, j: True),
        )
        torch.testing.assert_close(found_ND.split(LENGTHS)[row], joined(module, answers))


@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_looking_across(heads: int, shared: int) -> None:
    module = make(heads, shared, ITEM_WIDTH)
    stream_ND, items_MD = draw(sum(LENGTHS), WIDTH), draw(sum(ITEMS), ITEM_WIDTH)
    found_ND = module.source_attention(stream_ND, items_MD, RaggedAttention("cross", layout(LENGTHS), layout(ITEMS)))
    size = WIDTH // heads
    assert module.of_queries is not None and module.of_items is not None
    rows = zip(rows_of(stream_ND, LENGTHS), rows_of(items_MD, ITEMS), strict=True)
    for row, (xs, items) in enumerate(rows):
        answers, _ = slow_attention(
            [mapped(x, module.of_queries, 0, heads, size) for x in xs],
            [mapped(item, module.of_items, 0, shared, size) for item in items],
            [mapped(item, module.of_items, shared, shared, size) for item in items],
        )
        torch.testing.assert_close(found_ND.split(LENGTHS)[row], joined(module, answers))


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_steps_give_what_looking_back_gives(heads: int, shared: int, rotary: bool) -> None:
    """Token by token with a past that grows, and with a bias that depends on the distance."""
    module, size, rows, length = make(heads, shared), WIDTH // heads, 3, 5
    stream_BTD = draw(rows, length, WIDTH)
    own, bias = layout([length] * rows), draw(1, heads, length, length)
    turn = rotation(torch.arange(length).repeat(rows), size, torch.float64) if rotary else None
    seen: list[AttentionRecord] = []
    whole = module.look_at_self(
        stream_BTD.flatten(0, 1),
        RaggedAttention("decoder", own, own, causal=True, bias=bias),
        turn,
        recorder_for(seen, 0),
    ).unflatten(0, (rows, length))
    none = torch.zeros(rows, shared, 0, size, dtype=torch.float64)
    past = KeysValues(none, none)
    for time in range(length):
        turn = rotation(torch.full((rows,), time), size, torch.float64) if rotary else None
        now = bias[:, :, time : time + 1, : time + 1]
        found_RD, past, weights_RHS = module.step_at_self(stream_BTD[:, time], past, turn, now, None)
        torch.testing.assert_close(found_RD, whole[:, time])
        torch.testing.assert_close(weights_RHS, seen[0].weights_BHTS[:, :, time, : time + 1])
        assert past.keys.shape == past.values.shape == (rows, shared, time + 1, size)
    all_turned = rotation(torch.arange(length).repeat(rows), size, torch.float64) if rotary else None
    for one, kept in zip(module.own_keys_values(stream_BTD.flatten(0, 1), all_turned), past, strict=True):
        torch.testing.assert_close(one.unflatten(0, (rows, length)).transpose(1, 2), kept)


@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_a_step_across_is_looking_across(heads: int, shared: int) -> None:
    """Three hypotheses a source, side by side."""
    module, items = make(heads, shared, ITEM_WIDTH), [5, 5]
    stream_RD, items_MD = draw(6, WIDTH), draw(10, ITEM_WIDTH)
    seen: list[AttentionRecord] = []
    whole = module.source_attention(
        stream_RD, items_MD, RaggedAttention("cross", layout([3, 3]), layout(items)), recorder_for(seen, 0)
    )
    kept = (part.unflatten(0, (2, 5)).transpose(1, 2) for part in module.keys_values(items_MD))
    found_RD, weights_RHS = module.step_across(stream_RD, StepKeysValues(*kept))
    torch.testing.assert_close(found_RD, whole)
    torch.testing.assert_close(weights_RHS, seen[0].weights_BHTS.transpose(1, 2).flatten(0, 1))


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_it_is_pytorchs_multi_head_attention(heads: int) -> None:
    """Whose in-projection is laid out as ours: all queries, all keys, all values."""
    module = make(heads, heads)
    peer = nn.MultiheadAttention(WIDTH, heads, batch_first=True, dtype=torch.float64)
    assert module.of_self is not None
    with torch.no_grad():
        peer.in_proj_weight.copy_(module.of_self.weight)
        peer.in_proj_bias.copy_(module.of_self.bias)
        peer.out_proj.weight.copy_(module.out.weight)
        peer.out_proj.bias.copy_(module.out.bias)
    own = layout(LENGTHS)
    stream_ND = draw(sum(LENGTHS), WIDTH)
    seen: list[AttentionRecord] = []
    found_ND = module.look_at_self(stream_ND, RaggedAttention("encoder", own, own), None, recorder_for(seen, 0))
    for row, xs_TD in enumerate(stream_ND.split(LENGTHS)):
        answers, weights = peer(xs_TD[None], xs_TD[None], xs_TD[None], average_attn_weights=False)
        torch.testing.assert_close(found_ND.split(LENGTHS)[row], answers[0])
        length = LENGTHS[row]
        torch.testing.assert_close(seen[0].weights_BHTS[row, :, :length, :length], weights[0])


@pytest.mark.parametrize(("heads", "shared"), [(1, 1), (3, 3), (6, 2), (6, 1)])
def test_initialisation(heads: int, shared: int) -> None:
    """Each projection is Glorot's by its own size, though it lies in a matrix with others; biases are zero."""
    wide, items = 120, 70
    size = wide // heads
    torch.manual_seed(6)
    one = MultiHead(wide, heads=heads, key_value_heads=shared)
    other = MultiHead(wide, heads=heads, key_value_heads=shared, items=items)
    assert one.of_self is not None and other.of_queries is not None and other.of_items is not None
    kv = shared * size
    projections = {
        "queries": (one.of_self.weight[:wide], wide, wide),
        "keys": (one.of_self.weight[wide : wide + kv], wide, kv),
        "values": (one.of_self.weight[wide + kv :], wide, kv),
        "out": (one.out.weight, wide, wide),
        "queries across": (other.of_queries.weight, wide, wide),
        "keys across": (other.of_items.weight[:kv], items, kv),
        "values across": (other.of_items.weight[kv:], items, kv),
    }
    for name, (weight, inputs, outputs) in projections.items():
        assert weight.shape == (outputs, inputs), name
        bound = (6 / (inputs + outputs)) ** 0.5
        assert 0.97 * bound <= float(weight.detach().abs().max()) <= bound, name
    for linear in (one.of_self, one.out, other.of_queries, other.of_items, other.out):
        assert not linear.bias.any()


def test_dropout_is_for_training_alone() -> None:
    torch.manual_seed(7)
    module = MultiHead(WIDTH, heads=3, key_value_heads=3, dropout=0.5).double()
    own, stream_ND = layout(LENGTHS), draw(sum(LENGTHS), WIDTH)
    sight = RaggedAttention("encoder", own, own)
    assert not torch.equal(module.look_at_self(stream_ND, sight), module.look_at_self(stream_ND, sight))
    module.eval()
    torch.testing.assert_close(module.look_at_self(stream_ND, sight), module.look_at_self(stream_ND, sight))
