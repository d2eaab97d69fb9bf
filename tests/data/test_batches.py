from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batches import POOL, Position, _cut, budgets, endless, in_order, plan
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


def tokens_of(batch: np.ndarray, lengths: list[tuple[int, int]]) -> tuple[int, int]:
    """The tokens of a batch, source and target."""
    return sum(lengths[row][0] for row in batch.tolist()), sum(lengths[row][1] for row in batch.tolist())


def check(batches: list[np.ndarray], lengths: list[tuple[int, int]], limits: tuple[int, int]) -> None:
    """Each pair once; a batch keeps to the limit of each side unless it is a single pair."""
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) >= 1
        spent = tokens_of(batch, lengths)
        assert len(batch) == 1 or (spent[0] <= limits[0] and spent[1] <= limits[1])


@quick
@given(LENGTHS, BUDGETS, st.integers(0, 5), st.integers(0, 5))
def test_a_plan_holds_each_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    pairs = corpus(lengths)
    check(plan(pairs, budget, seed=seed, epoch=epoch), lengths, budgets(pairs, budget))


@quick
@given(LENGTHS, BUDGETS)
def test_evaluation_reads_each_pair_once_by_length(lengths: list[tuple[int, int]], budget: int) -> None:
    batches = in_order(corpus(lengths), budget)
    check(batches, lengths, (budget, budget))
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


class TestBudgets:
    """The fuller side of a corpus has the whole budget, the other its share of it and a little room."""

    @pytest.mark.parametrize(
        ("lengths", "budget", "expected"),
        [
            ([(3, 3), (5, 5)], 100, (100, 100)),
            ([(10, 20)], 100, (53, 100)),  # 50 and a twentieth, rounded up
            ([(20, 10)], 100, (100, 53)),
            ([(96, 100)], 100, (100, 100)),  # 96 and a twentieth are more than all
            ([(95, 100)], 1000, (998, 1000)),
            ([(1, 1000)], 10, (1, 10)),
            ([(0, 7), (0, 2)], 100, (0, 100)),  # a language model
            ([], 100, (0, 0)),
        ],
    )
    def test_by_hand(self, lengths: list[tuple[int, int]], budget: int, expected: tuple[int, int]) -> None:
        assert budgets(corpus(lengths), budget) == expected

    @quick
    @given(LENGTHS.filter(bool), st.integers(1, 10_000))
    def test_in_proportion(self, lengths: list[tuple[int, int]], budget: int) -> None:
        totals = tokens_of(np.arange(len(lengths)), lengths)
        limits = budgets(corpus(lengths), budget)
        fuller = int(totals[1] >= totals[0])
        assert limits[fuller] == budget
        share = budget * totals[1 - fuller] / totals[fuller]
        assert min(share, budget) <= limits[1 - fuller] <= min(share * 1.05 + 1, budget)

    @quick
    @given(LENGTHS, BUDGETS, st.integers(0, 9))
    def test_they_are_those_of_the_corpus_not_of_its_order(
        self, lengths: list[tuple[int, int]], budget: int, seed: int
    ) -> None:
        order = np.random.default_rng(seed).permutation(len(lengths))
        assert budgets(corpus([lengths[row] for row in order]), budget) == budgets(corpus(lengths), budget)


class TestCutting:
    @quick
    @given(LENGTHS, st.integers(0, 30), BUDGETS)
    def test_consecutive_rows_as_many_as_fit(self, lengths: list[tuple[int, int]], source: int, target: int) -> None:
        """A literal loop: a row begins a new part where it would take either side over its limit."""
        wanted: list[list[int]] = []
        spent = (0, 0)
        for row, length in enumerate(lengths):
            spent = (spent[0] + length[0], spent[1] + length[1])
            if not wanted or spent[0] > source or spent[1] > target:
                wanted.append([])
                spent = length
            wanted[-1].append(row)
        assert rows_of(_cut(np.arange(len(lengths)), corpus(lengths), (source, target))) == wanted

    @quick
    @given(LENGTHS.filter(bool), BUDGETS, st.data())
    def test_any_rows_in_any_order(self, lengths: list[tuple[int, int]], budget: int, data: st.DataObject) -> None:
        rows = np.array(data.draw(st.permutations(range(len(lengths)))))[: data.draw(st.integers(0, len(lengths)))]
        parts = _cut(rows, corpus(lengths), (budget, budget))
        assert [row for part in parts for row in part.tolist()] == rows.tolist()
        for part, after in pairwise(parts):
            both = tokens_of(np.concatenate([part, after[:1]]), lengths)
            assert max(both) > budget, "the next row did not fit"

    def test_one_long_side_is_enough_for_a_batch_of_its_own(self) -> None:
        lengths = [(2, 2), (50, 1), (2, 2), (1, 50), (2, 2)]
        assert rows_of(_cut(np.arange(5), corpus(lengths), (10, 10))) == [[0], [1], [2], [3], [4]]
        assert rows_of(_cut(np.array([0, 2, 4, 1, 3]), corpus(lengths), (10, 10))) == [[0, 2, 4], [1], [3]]

    def test_nothing_of_nothing(self) -> None:
        assert _cut(np.zeros(0, dtype=np.int64), corpus([]), (5, 5)) == []
        assert plan(corpus([]), 5, seed=1, epoch=0) == [] and in_order(corpus([]), 5) == []


@pytest.mark.parametrize("turned", [False, True], ids=["longer targets", "longer sources"])
@pytest.mark.parametrize("epoch", range(3))
def test_the_fuller_side_is_used_up(turned: bool, epoch: int) -> None:
    """Sides in proportion, as in translation: a batch ends where the fuller side is full."""
    random = np.random.default_rng(7)
    short = random.integers(1, 12, 900)
    long = np.maximum((short * 1.4 + random.normal(0, 0.7, 900)).round(), 1).astype(int)
    lengths = [(b, a) if turned else (a, b) for a, b in zip(short.tolist(), long.tolist(), strict=True)]
    batches = plan(corpus(lengths), 120, seed=1, epoch=epoch)
    spent = [tokens_of(batch, lengths)[0 if turned else 1] for batch in batches]
    assert max(spent) <= 120 and sum(spent) / (120 * len(batches)) > 0.9


def test_without_proportion_most_of_the_budget_is_used() -> None:
    batches = plan(MANY, 40, seed=1, epoch=0)
    spent = sum(int(MANY.target.lengths[batch].sum()) for batch in batches)
    assert spent / (40 * len(batches)) > 0.7


class TestLanguageModels:
    """Sources are empty: only targets count."""

    @quick
    @given(st.lists(st.integers(1, 9), max_size=60), BUDGETS, st.integers(0, 5), st.integers(0, 5))
    def test_each_line_once_within_the_budget(self, targets: list[int], budget: int, seed: int, epoch: int) -> None:
        lengths = [(0, target) for target in targets]
        pairs = corpus(lengths)
        batches = plan(pairs, budget, seed=seed, epoch=epoch)
        check(batches, lengths, (0, budget))
        assert rows_of(plan(pairs, budget, seed=seed, epoch=epoch)) == rows_of(batches)
        check(in_order(pairs, budget), lengths, (0, budget))

    def test_the_budget_is_used_up(self) -> None:
        lengths = [(0, 1 + number * 5 % 11) for number in range(700)]
        batches = plan(corpus(lengths), 60, seed=1, epoch=0)
        spent = sum(tokens_of(batch, lengths)[1] for batch in batches)
        assert spent / (60 * len(batches)) > 0.9
        batch = corpus(lengths).batch(batches[0])
        assert batch.source.rows == batch.target.rows == len(batches[0]) and batch.source.layout.total == 0


def test_a_pool_is_some_batches_of_the_shuffled_corpus() -> None:
    """So lengths are sorted in a part of the corpus, not in all of it: epochs differ in who goes with whom."""
    lengths = [(4, 4)] * 3 * POOL * 5
    batches = [frozenset(rows) for rows in rows_of(plan(corpus(lengths), 20, seed=1, epoch=0))]
    assert {len(batch) for batch in batches} == {5}
    again = {frozenset(rows) for rows in rows_of(plan(corpus(lengths), 20, seed=1, epoch=1))}
    assert len(again & set(batches)) < 3


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
