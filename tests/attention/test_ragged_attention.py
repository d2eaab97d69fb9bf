"""The ragged attention primitive against loops over one row, one head, one query and one item."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from oracles.attention import rows_of, slow_attention
from weft.attention.ragged_attention import (
    AttentionRecord,
    PrefixAttention,
    RaggedAttention,
    StepKeysValues,
    recorder_for,
    step_attention,
)
from weft.ragged import Layout, Ragged

WIDTH = 5
QUERIES, ITEMS = [2, 7, 1, 3], [5, 3, 1, 7]
CAUSAL_QUERIES, CAUSAL_ITEMS = [3, 1, 2, 7], [5, 1, 7, 7]
HEADS = [(1, 1), (3, 3), (6, 2), (3, 1)]


def layout(lengths: list[int]) -> Layout:
    return Layout(torch.tensor(lengths))


def draw(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def parts(queries: list[int], items: list[int], heads: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, keys and values; each its own numbers."""
    return (
        draw(sum(queries), heads, WIDTH),
        draw(sum(items), shared, WIDTH, seed=11),
        draw(sum(items), shared, WIDTH, seed=29),
    )


def check(
    looking: RaggedAttention,
    queries: list[int],
    items: list[int],
    heads: int,
    shared: int,
    bias: Callable[[int], list] | None = None,
) -> None:
    """Answers with and without the weights, and the weights, row by row. ``bias``: of a row."""
    given = parts(queries, items, heads, shared)
    seen: list[AttentionRecord] = []
    watched_NHD = looking.attend(*given, watch=recorder_for(seen, 2))
    answers_NHD = looking.attend(*given)
    torch.testing.assert_close(answers_NHD, watched_NHD)
    [(kind, layer, weights_BHTS)] = seen
    assert (kind, layer) == ("cross", 2)
    assert weights_BHTS.shape == (len(queries), heads, max(queries), max(items))
    by_row = zip(rows_of(given[0], queries), rows_of(given[1], items), rows_of(given[2], items), strict=True)
    for row, (own, keys, values) in enumerate(by_row):
        if not own or not keys:
            continue
        ahead = len(keys) - len(own)
        answers, weights = slow_attention(
            own,
            keys,
            values,
            sees=(lambda i, j, ahead=ahead: j <= i + ahead) if looking.causal else (lambda i, j: True),
            bias=None if bias is None else bias(row),
        )
        start = sum(queries[:row])
        found_THD = answers_NHD[start : start + len(own)]
        torch.testing.assert_close(found_THD, torch.tensor(answers, dtype=torch.float64))
        own_HTS = weights_BHTS[row, :, : len(own)]
        torch.testing.assert_close(own_HTS[..., : len(keys)], torch.tensor(weights, dtype=torch.float64))
        assert not own_HTS[..., len(keys) :].any()


@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_both_ways(heads: int, shared: int) -> None:
    check(RaggedAttention("cross", layout(QUERIES), layout(ITEMS)), QUERIES, ITEMS, heads, shared)


@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_over_itself(heads: int, shared: int) -> None:
    own = layout(ITEMS)
    for causal in (False, True):
        check(RaggedAttention("cross", own, own, causal=causal), ITEMS, ITEMS, heads, shared)


@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_queries_that_are_the_last_of_the_items(heads: int, shared: int) -> None:
    """Query T stands at item S, whatever the row."""
    looking = RaggedAttention("cross", layout(CAUSAL_QUERIES), layout(CAUSAL_ITEMS), causal=True)
    check(looking, CAUSAL_QUERIES, CAUSAL_ITEMS, heads, shared)


def test_two_layouts_that_are_equal_but_not_the_same() -> None:
    check(RaggedAttention("cross", layout(ITEMS), layout(ITEMS), causal=True), ITEMS, ITEMS, 3, 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "items"), [([3, 3], [5, 5]), ([3, 2], [5, 5]), ([5, 5], [5, 5]), ([2], [3])])
def test_even_rows(queries: list[int], items: list[int], causal: bool) -> None:
    check(RaggedAttention("cross", layout(queries), layout(items), causal=causal), queries, items, 6, 3)


def test_even_rows_over_themselves() -> None:
    own = layout([5, 5, 5])
    check(RaggedAttention("cross", own, own, causal=True), [5, 5, 5], [5, 5, 5], 2, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_bias(heads: int, shared: int, rows: int, causal: bool) -> None:
    """One for all rows, or one a row."""
    bias = draw(rows, heads, max(CAUSAL_QUERIES), max(CAUSAL_ITEMS), seed=5)
    looking = RaggedAttention("cross", layout(CAUSAL_QUERIES), layout(CAUSAL_ITEMS), causal=causal, bias=bias)
    check(looking, CAUSAL_QUERIES, CAUSAL_ITEMS, heads, shared, lambda row: bias[row if rows > 1 else 0].tolist())


def test_bias_over_itself() -> None:
    own, bias = layout(ITEMS), draw(1, 3, 7, 7, seed=5)
    for causal in (False, True):
        looking = RaggedAttention("cross", own, own, causal=causal, bias=bias)
        check(looking, ITEMS, ITEMS, 3, 3, lambda row: bias[0].tolist())


@pytest.mark.parametrize("causal", [False, True])
def test_rows_with_no_items(causal: bool) -> None:
    """They say nothing and spoil nothing: no NaN, neither in the answers nor in the gradients."""
    queries, items = [2, 1, 3], [3, 0, 5]
    looking = RaggedAttention("cross", layout(queries), layout(items), causal=causal)
    check(looking, queries, items, 2, 1)
    given = [part.requires_grad_() for part in parts(queries, items, 2, 1)]
    answers_NHD = looking.attend(*given)
    assert bool(answers_NHD.isfinite().all())
    assert not answers_NHD[2].any()
    for gradient in torch.autograd.grad(answers_NHD.sum(), given):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("causal", [False, True])
def test_rows_with_no_queries(causal: bool) -> None:
    queries, items = [2, 0, 3], [3, 2, 5]
    check(RaggedAttention("cross", layout(queries), layout(items), causal=causal), queries, items, 2, 1)
    own = layout(queries)
    check(RaggedAttention("cross", own, own, causal=causal), queries, queries, 2, 1)


def test_no_items_at_all() -> None:
    """A batch of empty sources."""
    looking = RaggedAttention("cross", layout([2, 1]), layout([0, 0]))
    answers_NHD = looking.attend(*parts([2, 1], [0, 0], 2, 2))
    assert answers_NHD.shape == (3, 2, WIDTH)
    assert not answers_NHD.any()


def test_no_tokens_at_all() -> None:
    own = layout([])
    assert RaggedAttention("cross", own, own).attend(*parts([], [], 2, 2)).shape == (0, 2, WIDTH)


def test_a_bound_on_the_lengths_changes_nothing() -> None:
    loose = Layout(torch.tensor(QUERIES), longest=11), Layout(torch.tensor(ITEMS), longest=13)
    given = parts(QUERIES, ITEMS, 3, 3)
    tight = RaggedAttention("cross", layout(QUERIES), layout(ITEMS)).attend(*given)
    torch.testing.assert_close(RaggedAttention("cross", *loose).attend(*given), tight)


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal: bool, watching: bool) -> None:
    queries, items = [2, 1, 3], [3, 1, 5]
    bias = draw(1, 2, 3, 5, seed=5)
    given = [part.requires_grad_() for part in (*parts(queries, items, 2, 1), bias)]

    def answers(queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor, bias: Tensor) -> Tensor:
        looking = RaggedAttention("cross", layout(queries), layout(items), causal=causal, bias=bias)
        return looking.attend(queries_NHD, keys_NHD, values_NHD, watch=recorder_for([] if watching else None, 0))

    assert torch.autograd.gradcheck(answers, given)


def test_gradients_over_itself() -> None:
    own = layout([2, 1, 5])
    given = [part.requires_grad_() for part in parts([2, 1, 5], [2, 1, 5], 2, 1)]
    for causal in (False, True):
        assert torch.autograd.gradcheck(RaggedAttention("cross", own, own, causal=causal).attend, given)


def test_dropout_keeps_the_mean() -> None:
    """Of the weights, not of the answers: with all values 1 an answer is the share that was kept, scaled up."""
    queries, items = [7, 3], [5, 3]
    looking = RaggedAttention("cross", layout(queries), layout(items))
    queries_NHD, keys_NHD, _ = parts(queries, items, 2, 2)
    values_NHD = torch.ones_like(keys_NHD)
    torch.manual_seed(4)
    for watch in (None, recorder_for([], 0)):
        drawn = [looking.attend(queries_NHD, keys_NHD, values_NHD, dropout=0.3, watch=watch) for _ in range(500)]
        assert any(one.ne(1.0).any() for one in drawn)
        torch.testing.assert_close(torch.stack(drawn).mean((0, 1, 2, 3)), torch.tensor(1.0).double(), rtol=0, atol=0.03)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sources", [[3, 5, 1, 2], [3, 0, 5, 1], [0, 0, 0, 0], [2, 2, 2, 2]])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_prefix(heads: int, shared: int, sources: list[int], biased: bool) -> None:
    """The stream is all sources, then all targets; the mask over one row's [x; y] is written out."""
    targets = [2, 7, 3, 1]
    both = [source + target for source, target in zip(sources, targets, strict=True)]
    total = sum(both)
    queries_NHD, keys_NHD, values_NHD = parts([total], [total], heads, shared)
    source_bias = target_bias = None
    if biased:
        source_bias = draw(1, heads, max(sources), max(sources), seed=5)
        target_bias = draw(4, heads, max(targets), max(both), seed=7)
    sight = PrefixAttention(layout(sources), layout(targets), source_bias=source_bias, target_bias=target_bias)
    answers_NHD = sight.attend(queries_NHD, keys_NHD, values_NHD)
    seen: list[AttentionRecord] = []
    torch.testing.assert_close(
        sight.attend(queries_NHD, keys_NHD, values_NHD, watch=recorder_for(seen, 0)), answers_NHD
    )
    assert [one.kind for one in seen] == (["encoder", "decoder"] if sum(sources) else ["decoder"])
    of_source = [part[: sum(sources)].split(sources) for part in (queries_NHD, keys_NHD, values_NHD)]
    of_target = [part[sum(sources) :].split(targets) for part in (queries_NHD, keys_NHD, values_NHD)]
    found_source, found_target = answers_NHD[: sum(sources)].split(sources), answers_NHD[sum(sources) :].split(targets)
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        length = source + target
        mask = [[j < source if i < source else j <= i for j in range(length)] for i in range(length)]
        bias = torch.zeros(heads, length, length, dtype=torch.float64)
        if source_bias is not None and target_bias is not None:
            bias[:, :source, :source] = source_bias[0, :, :source, :source]
            bias[:, source:, :] = target_bias[row, :, :target, :length]
        lists = [[*one[row].tolist(), *other[row].tolist()] for one, other in zip(of_source, of_target, strict=True)]
        expected, weights = slow_attention(*lists, sees=lambda i, j, mask=mask: mask[i][j], bias=bias.tolist())
        expected_NHD = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(torch.cat([found_source[row], found_target[row]]), expected_NHD)
        weights_HTS = torch.tensor(weights, dtype=torch.float64)[:, source:]
        torch.testing.assert_close(seen[-1].weights_BHTS[row, :, :target, :length], weights_HTS)


def test_prefix_gradients() -> None:
    sight = PrefixAttention(layout([2, 0, 3]), layout([1, 3, 2]))
    given = [part.requires_grad_() for part in parts([11], [11], 2, 1)]
    assert torch.autograd.gradcheck(sight.attend, given)


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_one_step_over_one_part(heads: int, shared: int, hypotheses: int) -> None:
    """Rows of one source side by side, each as a query of that source's row."""
    items = [5, 3, 1, 7]
    queries = [hypotheses] * 4
    queries_NHD, keys_NHD, values_NHD = parts(queries, items, heads, shared)
    of_items = layout(items)
    keys_BHSD, values_BHSD = (Ragged(part, of_items).to_padded().transpose(1, 2) for part in (keys_NHD, values_NHD))
    ended = torch.zeros(4, 7, dtype=torch.float64).masked_fill(of_items.masked_BS, float("-inf"))[:, None, None]
    answers_RHD, weights_RHS = step_attention(queries_NHD, [StepKeysValues(keys_BHSD, values_BHSD, ended)])
    seen: list[AttentionRecord] = []
    expected = RaggedAttention("cross", layout(queries), of_items).attend(
        queries_NHD, keys_NHD, values_NHD, watch=recorder_for(seen, 0)
    )
    torch.testing.assert_close(answers_RHD, expected)
    torch.testing.assert_close(weights_RHS, seen[0].weights_BHTS.transpose(1, 2).flatten(0, 1))


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize(("heads", "shared"), HEADS)
def test_one_step_over_two_parts(heads: int, shared: int, hypotheses: int) -> None:
    """A source shared by its hypotheses, and every hypothesis's own past: the same as one row of both."""
    sources, rows, past = 2, 2 * hypotheses, 7
    queries_RHD = draw(rows, heads, WIDTH)
    shared_keys, shared_values = (draw(sources, shared, 3, WIDTH, seed=seed) for seed in (5, 6))
    own_keys, own_values = (draw(rows, shared, past, WIDTH, seed=seed) for seed in (7, 8))
    shared_bias, own_bias = draw(sources, heads, 1, 3, seed=9), draw(1, heads, 1, past, seed=10)
    answers_RHD, weights_RHS = step_attention(
        queries_RHD,
        [StepKeysValues(shared_keys, shared_values, shared_bias), StepKeysValues(own_keys, own_values, own_bias)],
    )
    for row in range(rows):
        source = row // hypotheses
        keys = torch.cat([shared_keys[source], own_keys[row]], 1).transpose(0, 1)
        values = torch.cat([shared_values[source], own_values[row]], 1).transpose(0, 1)
        bias = torch.cat([shared_bias[source], own_bias[0]], -1)
        answers, weights = slow_attention(
            [queries_RHD[row].tolist()], keys.tolist(), values.tolist(), bias=bias.tolist()
        )
        torch.testing.assert_close(answers_RHD[row], torch.tensor(answers[0], dtype=torch.float64))
        torch.testing.assert_close(weights_RHS[row], torch.tensor(weights, dtype=torch.float64)[:, 0])


def test_one_step_over_nothing() -> None:
    """A batch of empty sources: as `RaggedAttention` has it, the answers are 0."""
    none, ended = torch.zeros(2, 1, 0, WIDTH), torch.zeros(2, 1, 1, 0)
    answers_RHD, weights_RHS = step_attention(torch.ones(6, 2, WIDTH), [StepKeysValues(none, none, ended)])
    assert answers_RHD.shape == (6, 2, WIDTH) and not answers_RHD.any()
    assert weights_RHS.shape == (6, 2, 0)


def test_one_step_has_gradients() -> None:
    shapes = [(4, 2, 3), (2, 1, 5, 3), (2, 1, 5, 3), (4, 1, 2, 3), (4, 1, 2, 3)]
    given = [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]

    def answers(queries: Tensor, *items: Tensor) -> Tensor:
        return step_attention(queries, [StepKeysValues(*items[:2]), StepKeysValues(*items[2:])])[0]

    assert torch.autograd.gradcheck(answers, given)


def test_notes() -> None:
    assert recorder_for(None, 3) is None
    seen: list[AttentionRecord] = []
    watch = recorder_for(seen, 3)
    assert watch is not None
    watch("decoder", torch.ones(1))
    assert seen == [AttentionRecord("decoder", 3, torch.ones(1))]
