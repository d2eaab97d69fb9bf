"""Attention to several source columns against loops over columns, states and heads."""

from __future__ import annotations

import torch
from torch import nn

from oracles.attention import slow_attention
from oracles.recurrent import dot, mix, softmax
from weft.attention.attention import Attention, AttentionParts
from weft.attention.multihead import KeysValues, StepKeysValues
from weft.attention.ragged_attention import RaggedAttention
from weft.attention.scores import General, ScoreOptions
from weft.attention.source_attention import SeparateAttention, SeparateCrossAttention, column_masks
from weft.ragged import Layout, Ragged
from weft.recipe import TransformerSettings

LENGTHS = [5, 2, 3]
COLUMNS = [[0, 0, 1, 2, 2], [0, 1], [0, 1, 1]]
"""The last two sources have no third column: they are attended to as a whole."""
COUNT = 3


def columns_N() -> torch.Tensor:
    return torch.tensor([column for row in COLUMNS for column in row])


def attended(row: int, column: int) -> list[int]:
    """The positions that the attention to a column attends to."""
    own = [position for position, other in enumerate(COLUMNS[row]) if other == column]
    return own or list(range(LENGTHS[row]))


def test_masks() -> None:
    masks_BKS = column_masks(Layout(torch.tensor(LENGTHS)), columns_N(), COUNT, torch.float64)
    assert masks_BKS.shape == (3, COUNT, 5)
    for row in range(3):
        for column in range(COUNT):
            assert (masks_BKS[row, column] == 0).nonzero()[:, 0].tolist() == attended(row, column)
            assert set(masks_BKS[row, column].tolist()) <= {0.0, float("-inf")}


def separate_attention() -> SeparateAttention:
    torch.manual_seed(3)
    options = ScoreOptions(query_width=5, key_width=7, size=1, temperature=1.0)
    attentions = []
    for _ in range(COUNT):
        values = nn.Linear(7, 4, bias=False)
        attentions.append(Attention(General(options), AttentionParts(value_projection=values)))
    return SeparateAttention(attentions).double()


def test_contexts_of_all_columns_side_by_side() -> None:
    """c = [c_1; …; c_K]; the weights returned are the mean of those of the columns."""
    attention = separate_attention()
    states = Ragged(torch.randn(sum(LENGTHS), 7, dtype=torch.float64), Layout(torch.tensor(LENGTHS)))
    queries_BTD = torch.randn(3, 2, 5, dtype=torch.float64)
    contexts_BTD, weights_BTS = attention(queries_BTD, attention.project(states, columns_N()))
    for row, states_SD in enumerate(states.split()):
        for time in range(2):
            context, weights = [], [0.0] * 5
            for column, one in enumerate(attention.attentions):
                weight_QK = one.score.weight_QK.tolist()
                query = queries_BTD[row, time].tolist()
                positions = attended(row, column)
                scores = [
                    sum(q * dot(line, states_SD[j].tolist()) for q, line in zip(query, weight_QK, strict=True))
                    for j in positions
                ]
                alpha = softmax(scores)
                context += mix(alpha, [one.value_projection(states_SD[j]).tolist() for j in positions])
                for j, weight in zip(positions, alpha, strict=True):
                    weights[j] += weight / COUNT
            torch.testing.assert_close(contexts_BTD[row, time].tolist(), context)
            torch.testing.assert_close(weights_BTS[row, time].tolist(), weights)


def test_gradients_of_separate_attentions() -> None:
    attention = separate_attention()
    layout = Layout(torch.tensor(LENGTHS))

    def contexts(states_ND: torch.Tensor, queries_BTD: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return attention(queries_BTD, attention.project(Ragged(states_ND, layout), columns_N()))[0]

    inputs = [torch.randn(sum(LENGTHS), 7), torch.randn(3, 2, 5)]
    arguments = [one.double().requires_grad_() for one in inputs]
    assert torch.autograd.gradcheck(contexts, (*arguments, *attention.parameters()))


def test_cross_attention_sums_over_the_columns() -> None:
    """out = b + Σ_k W_k^O [heads over column k], for whole targets and for a step of a search."""
    settings = TransformerSettings(layers=1, hidden=12, heads=4, key_value_heads=2)
    torch.manual_seed(4)
    attention = SeparateCrossAttention(settings, columns=COUNT, source_width=7).double()
    nn.init.normal_(attention.output.bias)
    source_layout, layout = Layout(torch.tensor(LENGTHS)), Layout(torch.tensor([2, 1, 3]))
    source_MD, stream_ND = (torch.randn(n, d, dtype=torch.float64) for n, d in ((10, 7), (6, 12)))
    mask_BHTS = column_masks(source_layout, columns_N(), COUNT, torch.float64).repeat_interleave(4, 1)[:, :, None]
    recorded = []
    pattern = RaggedAttention("cross", layout, source_layout, bias=mask_BHTS)
    output_ND = attention(stream_ND, source_MD, pattern, lambda kind, weights: recorded.append((kind, weights)))
    torch.testing.assert_close(attention(stream_ND, source_MD, pattern), output_ND)

    sources, targets = source_MD.split(LENGTHS), stream_ND.split([2, 1, 3])
    keys, values = (
        part.to_padded().transpose(1, 2) for part in map(Ragged, attention.keys_values(source_MD), [source_layout] * 2)
    )
    assert keys.shape == (3, COUNT * 2, 5, 3) and isinstance(attention.keys_values(source_MD), KeysValues)
    for row, (source_SD, target_TD) in enumerate(zip(sources, targets, strict=True)):
        queries_THD = attention.query(target_TD).unflatten(-1, (COUNT * 4, 3))
        keys_SHD, values_SHD = attention.keys_values(source_SD)
        expected_TD = attention.output.bias.expand(len(target_TD), -1)
        for column in range(COUNT):
            heads, kv_heads = slice(4 * column, 4 * column + 4), slice(2 * column, 2 * column + 2)
            outputs, weights = slow_attention(
                queries_THD[:, heads].tolist(),
                keys_SHD[:, kv_heads].tolist(),
                values_SHD[:, kv_heads].tolist(),
                attends=lambda query, key, allowed=attended(row, column): key in allowed,
            )
            of_column = attention.output.weight[:, 12 * column : 12 * column + 12]
            expected_TD = expected_TD + torch.tensor(outputs).double().flatten(1) @ of_column.T
            [(kind, weights_BHTS)] = recorded
            own_HTS = weights_BHTS[row, heads, : len(target_TD), : len(source_SD)]
            assert kind == "cross"
            torch.testing.assert_close(own_HTS, torch.tensor(weights).double())
        torch.testing.assert_close(output_ND.split([2, 1, 3])[row], expected_TD)
        first = StepKeysValues(keys[row : row + 1], values[row : row + 1], mask_BHTS[row : row + 1])
        stepped_RD, weights_RHS = attention.step(target_TD[:1], first)
        torch.testing.assert_close(stepped_RD, expected_TD[:1])
        torch.testing.assert_close(weights_RHS[0], weights_BHTS[row, :, 0])


def test_every_part_is_initialized_by_itself() -> None:
    """The matrices of a column are as large as those of a model with one source."""
    settings = TransformerSettings(hidden=64, heads=4)
    attention = SeparateCrossAttention(settings, columns=COUNT, source_width=64)
    bound = (6 / 128) ** 0.5
    for weight in (attention.query.weight, attention.key_value.weight, attention.output.weight):
        assert 0.95 * bound < weight.abs().max() <= bound
    assert not attention.output.bias.any() and not attention.query.bias.any()
