"""Ragged attention against loops over one row, one head, one query and one key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from oracles.attention import rows_of, slow_attention
from weft.attention.ragged_attention import AttentionRecords, PrefixAttention, RaggedAttention
from weft.ragged import Layout

WIDTH = 5
QUERIES, KEYS = [2, 7, 1, 3], [5, 3, 1, 7]
CAUSAL_QUERIES, CAUSAL_KEYS = [3, 1, 2, 7], [5, 1, 7, 7]
HEADS = [(1, 1), (3, 3), (6, 2), (3, 1)]


def layout(lengths: list[int]) -> Layout:
    return Layout(torch.tensor(lengths))


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def draw_all(queries: list[int], keys: list[int], heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, keys and values."""
    return (
        draw(sum(queries), heads, WIDTH),
        draw(sum(keys), kv_heads, WIDTH, seed=11),
        draw(sum(keys), kv_heads, WIDTH, seed=29),
    )


def check(
    attention: RaggedAttention, heads: int, kv_heads: int, bias_of_row: Callable[[int], list] | None = None
) -> None:
    """Outputs with and without returned weights, and the weights, row by row."""
    queries, keys = attention.queries.lengths.tolist(), attention.keys.lengths.tolist()
    tensors = draw_all(queries, keys, heads, kv_heads)
    records = AttentionRecords(True, None)
    recorded_NHD = attention.attend(*tensors, recorder=records.recorder(2))
    outputs_NHD = attention.attend(*tensors)
    torch.testing.assert_close(outputs_NHD, recorded_NHD)
    [(kind, layer, weights_BHTS, _)] = records
    assert (kind, layer) == ("cross", 2)
    assert weights_BHTS.shape == (len(queries), heads, max(queries), max(keys))
    rows = zip(rows_of(tensors[0], queries), rows_of(tensors[1], keys), rows_of(tensors[2], keys), strict=True)
    for row, (row_queries, row_keys, row_values) in enumerate(rows):
        if not row_queries or not row_keys:
            continue
        first = len(row_keys) - len(row_queries)
        outputs, weights = slow_attention(
            row_queries,
            row_keys,
            row_values,
            attends=(lambda i, j, first=first: j <= i + first) if attention.causal else (lambda i, j: True),
            bias=None if bias_of_row is None else bias_of_row(row),
        )
        outputs_THD = outputs_NHD.split(queries)[row]
        torch.testing.assert_close(outputs_THD, torch.tensor(outputs, dtype=torch.float64))
        weights_HTS = weights_BHTS[row, :, : len(row_queries)]
        torch.testing.assert_close(weights_HTS[..., : len(row_keys)], torch.tensor(weights, dtype=torch.float64))
        assert not weights_HTS[..., len(row_keys) :].any()


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_heads(heads: int, kv_heads: int) -> None:
    """Over other rows, over the rows themselves, and causal; query T has the position of key S."""
    own = layout(KEYS)
    check(RaggedAttention("cross", layout(QUERIES), own), heads, kv_heads)
    check(RaggedAttention("cross", own, own), heads, kv_heads)
    check(RaggedAttention("cross", own, own, causal=True), heads, kv_heads)
    check(RaggedAttention("cross", layout(CAUSAL_QUERIES), layout(CAUSAL_KEYS), causal=True), heads, kv_heads)


def test_equal_layouts_that_are_not_identical() -> None:
    check(RaggedAttention("cross", layout(KEYS), layout(KEYS), causal=True), 3, 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [([3, 3], [5, 5]), ([3, 2], [5, 5]), ([5, 5], [5, 5]), ([2], [3])])
def test_rows_of_equal_length(queries: list[int], keys: list[int], causal: bool) -> None:
    check(RaggedAttention("cross", layout(queries), layout(keys), causal=causal), 6, 3)
    own = layout(keys)
    check(RaggedAttention("cross", own, own, causal=causal), 2, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_bias(heads: int, kv_heads: int, causal: bool) -> None:
    """One for all rows, or one per row."""
    for rows in (1, 4):
        bias = draw(rows, heads, max(CAUSAL_QUERIES), max(CAUSAL_KEYS), seed=5)
        attention = RaggedAttention("cross", layout(CAUSAL_QUERIES), layout(CAUSAL_KEYS), causal=causal, bias=bias)
        check(attention, heads, kv_heads, lambda row, bias=bias: bias[row if len(bias) > 1 else 0].tolist())
    own, bias = layout(KEYS), draw(1, heads, 7, 7, seed=5)
    check(RaggedAttention("cross", own, own, causal=causal, bias=bias), heads, kv_heads, lambda row: bias[0].tolist())


@pytest.mark.parametrize("causal", [False, True])
def test_rows_without_keys(causal: bool) -> None:
    """Their outputs are zero; no NaN, neither in the outputs nor in the gradients."""
    queries, keys = [2, 1, 3], [3, 0, 5]
    attention = RaggedAttention("cross", layout(queries), layout(keys), causal=causal)
    check(attention, 2, 1)
    tensors = [part.requires_grad_() for part in draw_all(queries, keys, 2, 1)]
    outputs_NHD = attention.attend(*tensors)
    assert bool(outputs_NHD.isfinite().all())
    assert not outputs_NHD[2].any()
    for gradient in torch.autograd.grad(outputs_NHD.sum(), tensors):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("causal", [False, True])
def test_rows_without_queries(causal: bool) -> None:
    queries, keys = [2, 0, 3], [3, 2, 5]
    check(RaggedAttention("cross", layout(queries), layout(keys), causal=causal), 2, 1)
    own = layout(queries)
    check(RaggedAttention("cross", own, own, causal=causal), 2, 1)


def test_empty_sources_and_empty_batches() -> None:
    attention = RaggedAttention("cross", layout([2, 1]), layout([0, 0]))
    outputs_NHD = attention.attend(*draw_all([2, 1], [0, 0], 2, 2))
    assert outputs_NHD.shape == (3, 2, WIDTH)
    assert not outputs_NHD.any()
    own = layout([])
    assert RaggedAttention("cross", own, own).attend(*draw_all([], [], 2, 2)).shape == (0, 2, WIDTH)


def test_a_bound_on_the_lengths_changes_nothing() -> None:
    bounded = Layout(torch.tensor(QUERIES), longest=11), Layout(torch.tensor(KEYS), longest=13)
    tensors = draw_all(QUERIES, KEYS, 3, 3)
    expected = RaggedAttention("cross", layout(QUERIES), layout(KEYS)).attend(*tensors)
    torch.testing.assert_close(RaggedAttention("cross", *bounded).attend(*tensors), expected)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal: bool, recorded: bool) -> None:
    queries, keys = [2, 1, 3], [3, 1, 5]
    bias = draw(1, 2, 3, 5, seed=5)
    tensors = [part.requires_grad_() for part in (*draw_all(queries, keys, 2, 1), bias)]

    def outputs(queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor, bias: Tensor) -> Tensor:
        attention = RaggedAttention("cross", layout(queries), layout(keys), causal=causal, bias=bias)
        recorder = AttentionRecords(recorded, None).recorder(0)
        return attention.attend(queries_NHD, keys_NHD, values_NHD, recorder=recorder)

    assert torch.autograd.gradcheck(outputs, tensors, fast_mode=True)


def test_gradients_of_self_attention() -> None:
    own = layout([2, 1, 5])
    tensors = [part.requires_grad_() for part in draw_all([2, 1, 5], [2, 1, 5], 2, 1)]
    for causal in (False, True):
        assert torch.autograd.gradcheck(
            RaggedAttention("cross", own, own, causal=causal).attend, tensors, fast_mode=True
        )


def test_dropout_keeps_the_mean() -> None:
    """Of the weights, not of the outputs: with all values 1 an output is the sum of the weights that were kept."""
    queries, keys = [7, 3], [5, 3]
    attention = RaggedAttention("cross", layout(queries), layout(keys))
    queries_NHD, keys_NHD, _ = draw_all(queries, keys, 2, 2)
    values_NHD = torch.ones_like(keys_NHD)
    torch.manual_seed(4)
    for recorder in (None, AttentionRecords(True, None).recorder(0)):
        outputs = torch.stack(
            [attention.attend(queries_NHD, keys_NHD, values_NHD, dropout=0.3, recorder=recorder) for _ in range(500)]
        )
        assert outputs.ne(1.0).any()
        torch.testing.assert_close(outputs.mean((0, 1, 2, 3)), torch.tensor(1.0).double(), rtol=0, atol=0.03)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sources", [[3, 5, 1, 2], [3, 0, 5, 1], [0, 0, 0, 0], [2, 2, 2, 2]])
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (6, 2)])
def test_prefix(heads: int, kv_heads: int, sources: list[int], biased: bool) -> None:
    """The stream is all sources, then all targets; the mask over one row's [x; y] is written out."""
    targets = [2, 7, 3, 1]
    lengths = [source + target for source, target in zip(sources, targets, strict=True)]
    tensors = draw_all([sum(lengths)], [sum(lengths)], heads, kv_heads)
    source_bias = target_bias = None
    if biased:
        source_bias = draw(1, heads, max(sources), max(sources), seed=5)
        target_bias = draw(4, heads, max(targets), max(lengths), seed=7)
    pattern = PrefixAttention(layout(sources), layout(targets), source_bias=source_bias, target_bias=target_bias)
    outputs_NHD = pattern.attend(*tensors)
    records = AttentionRecords(True, None)
    torch.testing.assert_close(pattern.attend(*tensors, recorder=records.recorder(0)), outputs_NHD)
    assert [record.kind for record in records] == (["encoder", "decoder"] if sum(sources) else ["decoder"])

    def of_row(values_NHD: Tensor, row: int) -> Tensor:
        split = sum(sources)
        return torch.cat([values_NHD[:split].split(sources)[row], values_NHD[split:].split(targets)[row]])

    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        length = source + target
        allowed = [[j < source if i < source else j <= i for j in range(length)] for i in range(length)]
        bias = torch.zeros(heads, length, length, dtype=torch.float64)
        if source_bias is not None and target_bias is not None:
            bias[:, :source, :source] = source_bias[0, :, :source, :source]
            bias[:, source:, :] = target_bias[row, :, :target, :length]
        outputs, weights = slow_attention(
            *(of_row(values_NHD, row).tolist() for values_NHD in tensors),
            attends=lambda i, j, allowed=allowed: allowed[i][j],
            bias=bias.tolist(),
        )
        torch.testing.assert_close(of_row(outputs_NHD, row), torch.tensor(outputs, dtype=torch.float64))
        weights_HTS = torch.tensor(weights, dtype=torch.float64)[:, source:]
        torch.testing.assert_close(records[-1].weights_BHTS[row, :, :target, :length], weights_HTS)


def test_prefix_gradients() -> None:
    pattern = PrefixAttention(layout([2, 0, 3]), layout([1, 3, 2]))
    tensors = [part.requires_grad_() for part in draw_all([11], [11], 2, 1)]
    assert torch.autograd.gradcheck(pattern.attend, tensors, fast_mode=True)


class TestRecorded:
    """Recording the weights changes neither dropout nor gradients."""

    def attention(self) -> tuple[RaggedAttention, tuple[Tensor, Tensor, Tensor]]:
        queries, keys = [2, 3], [5, 4]
        return RaggedAttention("cross", layout(queries), layout(keys)), draw_all(queries, keys, 2, 2)

    def test_dropout_stays_on(self) -> None:
        attention, tensors = self.attention()
        records = AttentionRecords(True, None)
        plain_NHD = attention.attend(*tensors, recorder=records.recorder(0))
        torch.manual_seed(1)
        dropped_NHD = attention.attend(*tensors, dropout=0.5, recorder=records.recorder(0))
        assert not torch.allclose(plain_NHD, dropped_NHD)
        assert torch.equal(records[0].weights_BHTS, records[1].weights_BHTS), "the weights are those before dropout"

    def test_weights_have_a_gradient(self) -> None:
        attention, (queries_NHD, keys_NHD, values_NHD) = self.attention()
        queries_NHD.requires_grad_()
        records = AttentionRecords(True, None)
        attention.attend(queries_NHD, keys_NHD, values_NHD, recorder=records.recorder(0))
        [(_, _, weights_BHTS, _)] = records
        weights_BHTS[..., 0].sum().backward()
        assert queries_NHD.grad is not None and queries_NHD.grad.abs().sum() > 0
