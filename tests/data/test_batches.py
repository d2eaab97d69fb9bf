from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batches import Position, endless, in_order, plan
from weft.data.store import PairStore, TokenStore

quick = settings(deadline=None, max_examples=50)

LENGTHS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=60)
BUDGETS = st.integers(1, 30)


def corpus(lengths: list[tuple[int, int]]) -> PairStore:
    """Pairs of these lengths; every token of a pair is the pair's number."""
    return PairStore(
        TokenStore.of([number] * source for number, (source, _) in enumerate(lengths)),
        TokenStore.of([number] * target for number, (_, target) in enumerate(lengths)),
    )


MANY = corpus([(1 + number % 7, 1 + number * 5 % 11) for number in range(230)])


def rows_of(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def check(batches: list[np.ndarray], lengths: list[tuple[int, int]], budget: int) -> None:
    """Each pair once; a batch keeps to the budget on both sides unless it is a single pair."""
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) >= 1
        for side in (0, 1):
            assert len(batch) == 1 or sum(lengths[row][side] for row in batch) <= budget


@quick
@given(LENGTHS, BUDGETS, st.integers(0, 5), st.integers(0, 5))
def test_a_plan_holds_each_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    check(plan(corpus(lengths), budget, seed=seed, epoch=epoch), lengths, budget)


@quick
@given(LENGTHS, BUDGETS)
def test_evaluation_reads_each_pair_once_by_length(lengths: list[tuple[int, int]], budget: int) -> None:
    batches = in_order(corpus(lengths), budget)
    check(batches, lengths, budget)
    targets = [lengths[row][1] for batch in batches for row in batch.tolist()]
    assert targets == sorted(targets)


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    once = rows_of(plan(MANY, 40, seed=3, epoch=2))
    np.random.seed(0)
    assert rows_of(plan(MANY, 40, seed=3, epoch=2)) == once
    assert rows_of(plan(MANY, 40, seed=3, epoch=1)) != once
    assert rows_of(plan(MANY, 40, seed=2, epoch=2)) != once
    assert rows_of(plan(MANY, 40, seed=2, epoch=3)) != once, "seed and epoch must not be added up"


def test_rows_of_a_batch_are_of_about_one_length_and_batches_come_in_no_order_of_length() -> None:
    batches = plan(MANY, 40, seed=1, epoch=0)
    spreads = [np.ptp(MANY.target.lengths[batch]) for batch in batches]
    assert np.mean(spreads) <= 1.0
    means = [MANY.target.lengths[batch].mean() for batch in batches]
    assert means != sorted(means) and means != sorted(means, reverse=True)


def test_the_budget_is_used_up() -> None:
    batches = plan(MANY, 40, seed=1, epoch=0)
    spent = sum(int(MANY.costs()[batch].sum()) for batch in batches)
    assert spent / (40 * len(batches)) > 0.75


@quick
@given(LENGTHS.filter(bool), BUDGETS, st.integers(0, 3), st.integers(0, 40))
def test_endless_from_any_position_is_the_tail_of_the_whole_stream(
    lengths: list[tuple[int, int]], budget: int, seed: int, skip: int
) -> None:
    pairs = corpus(lengths)
    stream = list(islice(endless(pairs, budget, seed=seed), skip + 5))
    start = stream[skip - 1][0] if skip else Position()
    for (after, batch), (same_after, same_batch) in zip(
        stream[skip:], endless(pairs, budget, seed=seed, start=start), strict=False
    ):
        assert after == same_after
        assert batch.target.values.tolist() == same_batch.target.values.tolist()
        assert batch.source.values.tolist() == same_batch.source.values.tolist()


@pytest.mark.parametrize("budget", [7, 40, 10_000])
def test_endless_reads_the_plans_of_one_epoch_after_the_other(budget: int) -> None:
    plans = [rows_of(plan(MANY, budget, seed=5, epoch=epoch)) for epoch in range(3)]
    expected = [rows for epoch in plans for rows in epoch]
    stream = islice(endless(MANY, budget, seed=5), len(expected))
    said = [[int(row[0]) for row in batch.target.split()] for _, batch in stream]
    assert said == expected


def test_positions_name_the_batch_to_be_read_next() -> None:
    count = len(plan(MANY, 400, seed=5, epoch=0))
    positions = [after for after, _ in islice(endless(MANY, 400, seed=5), count + 1)]
    assert positions[:-2] == [Position(0, batch) for batch in range(1, count)]
    assert positions[-2] == Position(1, 0)
    assert positions[-1] == Position(1, 1)
