from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching import batches as module
from weft.data.batching.batches import (
    POOL_BATCHES,
    Mixture,
    Part,
    Position,
    StoredBatchStream,
    StoredCorpus,
    pack_batches,
    pool_size,
    side_budgets,
)
from weft.data.store.token_store import CorpusSize, PairStore, TokenStore, length_sorted_batches, split_by_budget
from weft.errors import DataError

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


def next_rows(stream: StoredBatchStream, step: int = 1) -> np.ndarray:
    """The rows of the next batch, as its targets tell them, in their order."""
    [planned] = stream.take(step, 1)
    batch = planned.make()
    assert (planned.source_tokens, planned.target_tokens) == (batch.source.layout.total, batch.target.layout.total)
    return np.array([int(row[0]) for row in batch.target.split()])


def epoch_of(pairs: PairStore, budget: int, *, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of every batch of an epoch."""
    stream = StoredCorpus(pairs).batches(budget, seed=seed, start=Position(epoch=epoch))
    found: list[np.ndarray] = []
    while stream.position.epoch == epoch:
        found.append(next_rows(stream))
    assert stream.position == Position(epoch=epoch + 1)
    return found


def pack(rows: np.ndarray, pairs: PairStore, budget: int, *, key: tuple[int, ...]) -> list[np.ndarray]:
    return pack_batches(rows, pairs, side_budgets(pairs.corpus_size, budget), key=key)


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
@given(LENGTHS.filter(bool), BUDGETS, st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 2, POOL_BATCHES]))
def test_an_epoch_holds_each_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int, pool: int
) -> None:
    pairs = corpus(lengths)
    with patch.object(module, "POOL_BATCHES", pool):
        check(epoch_of(pairs, budget, seed=seed, epoch=epoch), lengths, side_budgets(pairs.corpus_size, budget))


@quick
@given(LENGTHS, BUDGETS)
def test_evaluation_reads_each_pair_once_by_length(lengths: list[tuple[int, int]], budget: int) -> None:
    batches = length_sorted_batches(corpus(lengths), budget)
    check(batches, lengths, (budget, budget))
    targets = [lengths[row][1] for batch in batches for row in batch.tolist()]
    assert targets == sorted(targets)


def test_an_epoch_is_a_function_of_seed_and_epoch() -> None:
    once = rows_of(epoch_of(MANY, 40, seed=3, epoch=2))
    np.random.seed(0)
    assert rows_of(epoch_of(MANY, 40, seed=3, epoch=2)) == once
    assert rows_of(epoch_of(MANY, 40, seed=3, epoch=1)) != once
    assert rows_of(epoch_of(MANY, 40, seed=2, epoch=2)) != once
    assert rows_of(epoch_of(MANY, 40, seed=2, epoch=3)) != once, "seed and epoch must not be added up"


def test_pools_and_stages_are_ordered_each_in_its_own_way() -> None:
    """Even where the same rows come in them."""
    rows = np.arange(len(MANY))
    keys = [(3, 0, 0, 0, 0), (4, 0, 0, 0, 0), (3, 1, 0, 0, 0), (3, 0, 1, 0, 0), (3, 0, 0, 1, 0)]
    orders = [str(rows_of(pack(rows, MANY, 40, key=key))) for key in keys]
    assert len(set(orders)) == len(keys)
    assert rows.tolist() == list(range(len(MANY))), "what was given is left alone"


def test_rows_of_a_batch_are_of_about_one_length_and_batches_come_in_no_order_of_length() -> None:
    batches = epoch_of(MANY, 40, seed=1, epoch=0)
    spreads = [np.ptp(MANY.target.lengths[batch]) for batch in batches]
    assert np.mean(spreads) <= 1.0
    means = [MANY.target.lengths[batch].mean() for batch in batches]
    assert means != sorted(means) and means != sorted(means, reverse=True)


@quick
@given(LENGTHS.filter(bool), BUDGETS, st.integers(0, 99), st.data())
def test_a_pool_is_sorted_by_length_then_cut(
    lengths: list[tuple[int, int]], budget: int, seed: int, data: st.DataObject
) -> None:
    """A literal loop over the lengths of the pool, by target and then by source; batches come in any order."""
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=50))
    pairs = corpus(lengths)
    limits = side_budgets(pairs.corpus_size, budget)
    wanted: list[list[tuple[int, int]]] = []
    spent = (0, 0)
    for length in sorted((lengths[row] for row in rows), key=lambda both: (both[1], both[0])):
        spent = (spent[0] + length[0], spent[1] + length[1])
        if not wanted or spent[0] > limits[0] or spent[1] > limits[1]:
            wanted.append([])
            spent = length
        wanted[-1].append(length)
    found = rows_of(pack(np.array(rows, dtype=np.int64), pairs, budget, key=(seed,)))
    assert sorted([lengths[row] for row in batch] for batch in found) == sorted(wanted)
    assert sorted(row for batch in found for row in batch) == sorted(rows)


def test_among_pairs_of_one_length_chance_decides() -> None:
    """Who goes with whom does not hang on the order of the rows that are given."""
    pairs = corpus([(4, 4)] * 100)
    found = [{frozenset(rows) for rows in rows_of(pack(np.arange(100), pairs, 20, key=(key,)))} for key in range(2)]
    assert all(len(one) == 20 for one in found) and len(found[0] & found[1]) < 3


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
        assert side_budgets(corpus(lengths).corpus_size, budget) == expected

    @quick
    @given(LENGTHS.filter(bool), st.integers(1, 10_000))
    def test_in_proportion(self, lengths: list[tuple[int, int]], budget: int) -> None:
        totals = tokens_of(np.arange(len(lengths)), lengths)
        limits = side_budgets(corpus(lengths).corpus_size, budget)
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
        shuffled = corpus([lengths[row] for row in order])
        assert side_budgets(shuffled.corpus_size, budget) == side_budgets(corpus(lengths).corpus_size, budget)


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
        assert rows_of(split_by_budget(np.arange(len(lengths)), corpus(lengths), (source, target))) == wanted

    @quick
    @given(LENGTHS.filter(bool), BUDGETS, st.data())
    def test_any_rows_in_any_order(self, lengths: list[tuple[int, int]], budget: int, data: st.DataObject) -> None:
        rows = np.array(data.draw(st.permutations(range(len(lengths)))))[: data.draw(st.integers(0, len(lengths)))]
        parts = split_by_budget(rows, corpus(lengths), (budget, budget))
        assert [row for part in parts for row in part.tolist()] == rows.tolist()
        for part, after in pairwise(parts):
            both = tokens_of(np.concatenate([part, after[:1]]), lengths)
            assert max(both) > budget, "the next row did not fit"

    def test_one_long_side_is_enough_for_a_batch_of_its_own(self) -> None:
        lengths = [(2, 2), (50, 1), (2, 2), (1, 50), (2, 2)]
        assert rows_of(split_by_budget(np.arange(5), corpus(lengths), (10, 10))) == [[0], [1], [2], [3], [4]]
        assert rows_of(split_by_budget(np.array([0, 2, 4, 1, 3]), corpus(lengths), (10, 10))) == [[0, 2, 4], [1], [3]]

    def test_nothing_of_nothing(self) -> None:
        assert split_by_budget(np.zeros(0, dtype=np.int64), corpus([]), (5, 5)) == []
        nothing = np.zeros(0, dtype=np.int64)
        assert pack(nothing, corpus([]), 5, key=(1,)) == []
        assert length_sorted_batches(corpus([]), 5) == []

    def test_no_pairs_are_refused(self) -> None:
        with pytest.raises(DataError, match=r"^there are no pairs to make batches of$"):
            StoredCorpus(corpus([])).batches(5, seed=1)


@pytest.mark.parametrize("turned", [False, True], ids=["longer targets", "longer sources"])
@pytest.mark.parametrize("epoch", range(3))
def test_the_fuller_side_is_used_up(turned: bool, epoch: int) -> None:
    """Sides in proportion, as in translation: a batch ends where the fuller side is full."""
    random = np.random.default_rng(7)
    short = random.integers(1, 12, 900)
    long = np.maximum((short * 1.4 + random.normal(0, 0.7, 900)).round(), 1).astype(int)
    lengths = [(b, a) if turned else (a, b) for a, b in zip(short.tolist(), long.tolist(), strict=True)]
    batches = epoch_of(corpus(lengths), 120, seed=1, epoch=epoch)
    spent = [tokens_of(batch, lengths)[0 if turned else 1] for batch in batches]
    assert max(spent) <= 120 and sum(spent) / (120 * len(batches)) > 0.9


def test_without_proportion_most_of_the_budget_is_used() -> None:
    batches = epoch_of(MANY, 40, seed=1, epoch=0)
    spent = sum(int(MANY.target.lengths[batch].sum()) for batch in batches)
    assert spent / (40 * len(batches)) > 0.7


class TestLanguageModels:
    """Sources are empty: only targets count."""

    @quick
    @given(st.lists(st.integers(1, 9), min_size=1, max_size=60), BUDGETS, st.integers(0, 5), st.integers(0, 5))
    def test_each_line_once_within_the_budget(self, targets: list[int], budget: int, seed: int, epoch: int) -> None:
        lengths = [(0, target) for target in targets]
        pairs = corpus(lengths)
        batches = epoch_of(pairs, budget, seed=seed, epoch=epoch)
        check(batches, lengths, (0, budget))
        assert rows_of(epoch_of(pairs, budget, seed=seed, epoch=epoch)) == rows_of(batches)
        check(length_sorted_batches(pairs, budget), lengths, (0, budget))

    def test_the_budget_is_used_up(self) -> None:
        lengths = [(0, 1 + number * 5 % 11) for number in range(700)]
        batches = epoch_of(corpus(lengths), 60, seed=1, epoch=0)
        spent = sum(tokens_of(batch, lengths)[1] for batch in batches)
        assert spent / (60 * len(batches)) > 0.9
        batch = corpus(lengths).batch(batches[0])
        assert batch.source.rows == batch.target.rows == len(batches[0]) and batch.source.layout.total == 0


def test_a_pool_is_some_batches_of_the_shuffled_corpus() -> None:
    """So lengths are sorted in a part of the corpus, not in all of it: epochs differ in who goes with whom."""
    lengths = [(4, 4)] * 3 * POOL_BATCHES * 5
    batches = [frozenset(rows) for rows in rows_of(epoch_of(corpus(lengths), 20, seed=1, epoch=0))]
    assert {len(batch) for batch in batches} == {5}
    again = {frozenset(rows) for rows in rows_of(epoch_of(corpus(lengths), 20, seed=1, epoch=1))}
    assert len(again & set(batches)) < 3


class TestPools:
    @pytest.mark.parametrize(
        ("corpus_size", "budget", "expected"),
        [
            (CorpusSize(10, 40, 80, 9, 9), 100, 625),  # 50 batches of 100 tokens, 8 tokens a pair
            (CorpusSize(10, 80, 40, 9, 9), 100, 625),
            (CorpusSize(3, 0, 10, 1, 9), 2, 30),
            (CorpusSize(2, 900, 1000, 500, 500), 3, 1),
            (CorpusSize(2, 900, 1000, 500, 500), 10, 1),
            (CorpusSize(0, 0, 0, 1, 1), 5, 250),
        ],
    )
    def test_their_size_by_hand(self, corpus_size: CorpusSize, budget: int, expected: int) -> None:
        assert pool_size(corpus_size, budget) == expected

    @pytest.mark.parametrize("budget", [7, 40, 400])
    def test_have_some_fifty_batches(self, budget: int) -> None:
        lengths = [(4, 5)] * (3 * POOL_BATCHES * budget // 5)
        pairs = corpus(lengths)
        counts = [0, 0, 0]
        stream = StoredCorpus(pairs).batches(budget, seed=1)
        while stream.position.epoch == 0 and stream.position.pool < 3:
            counts[stream.position.pool] += 1
            stream.take(1, 1)
        assert all(POOL_BATCHES * 0.9 <= count <= POOL_BATCHES * 1.5 for count in counts)


def literal(pairs: PairStore, budget: int, *, seed: int, epochs: int) -> list[tuple[Position, list[int]]]:
    """Every batch of some epochs, and the position after it: pool after pool, each made for itself."""
    mixture = Mixture([Part(0, len(pairs))], seed=seed)
    size = pool_size(pairs.corpus_size, budget)
    pools = [(epoch, number) for epoch in range(epochs) for number in range(-(-len(pairs) // size))]
    found: list[tuple[Position, list[int]]] = []
    for (epoch, number), after in zip(pools, [*pools[1:], (epochs, 0)], strict=True):
        rows = mixture.rows(0, epoch, number * size, min((number + 1) * size, len(pairs)))
        batches = rows_of(pack(rows, pairs, budget, key=(seed, 0, epoch, number, 0)))
        positions = [Position(0, epoch, number, batch) for batch in range(1, len(batches))]
        found += zip([*positions, Position(0, *after)], batches, strict=True)
    return found


@pytest.mark.parametrize(
    ("budget", "pool"), [(7, 2), (7, POOL_BATCHES), (40, 1), (40, 3), (40, POOL_BATCHES), (10_000, POOL_BATCHES)]
)
def test_the_stream_reads_pool_after_pool_and_epoch_after_epoch(budget: int, pool: int) -> None:
    with patch.object(module, "POOL_BATCHES", pool):
        expected = literal(MANY, budget, seed=5, epochs=3)
        stream = StoredCorpus(MANY).batches(budget, seed=5)
        for after, rows in expected:
            assert next_rows(stream).tolist() == rows
            assert stream.position == after


def test_positions_name_the_batch_to_be_read_next() -> None:
    count = len(epoch_of(MANY, 400, seed=5, epoch=0))
    stream = StoredCorpus(MANY).batches(400, seed=5)
    assert stream.position == Position(0, 0, 0, 0)
    positions = []
    for _ in range(count + 1):
        stream.take(1, 1)
        positions.append(stream.position)
    assert positions[:-2] == [Position(0, 0, 0, batch) for batch in range(1, count)]
    assert positions[-2] == Position(0, 1, 0, 0)
    assert positions[-1] == Position(0, 1, 0, 1)


def test_what_is_taken_together_is_what_is_taken_one_by_one() -> None:
    one, many = (StoredCorpus(MANY).batches(40, seed=5) for _ in range(2))
    for step in range(1, 30):
        singles = [one.take(step, 1)[0] for _ in range(7)]
        together = many.take(step, 7)
        assert one.position == many.position
        for left, right in zip(singles, together, strict=True):
            assert left.make().target.values.tolist() == right.make().target.values.tolist()


@quick
@given(LENGTHS.filter(bool), BUDGETS, st.integers(0, 3), st.integers(0, 40), st.sampled_from([1, 2, POOL_BATCHES]))
def test_from_any_position_on_it_is_the_tail_of_the_whole_stream(
    lengths: list[tuple[int, int]], budget: int, seed: int, skip: int, pool: int
) -> None:
    with patch.object(module, "POOL_BATCHES", pool):
        data = StoredCorpus(corpus(lengths))
        whole = data.batches(budget, seed=seed)
        for _ in range(skip):
            whole.take(1, 1)
        tail = data.batches(budget, seed=seed, start=whole.position)
        for _ in range(5):
            [batch], [same] = ([one.make() for one in stream.take(1, 1)] for stream in (whole, tail))
            assert whole.position == tail.position
            assert batch.target.values.tolist() == same.target.values.tolist()
            assert batch.source.values.tolist() == same.source.values.tolist()


@st.composite
def mixed(draw: st.DrawFn) -> StoredCorpus:
    """Parts with shares, variants and times, one after the other in a store; the last one is there at any time."""
    parts: list[Part] = []
    start = 0
    weighted = draw(st.booleans())
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(1, 8))
        part = Part(
            start,
            draw(st.integers(0, 7)),
            variants=draw(st.integers(1, 3)),
            weight=draw(st.one_of(st.none(), st.floats(0.01, 9))) if weighted else None,
            first_step=first,
            last_step=draw(st.one_of(st.none(), st.integers(first, 12))),
        )
        parts.append(part)
        start += part.pairs * part.variants
    parts.append(Part(start, draw(st.integers(1, 7))))
    count = start + parts[-1].pairs
    lengths = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=count, max_size=count))
    return StoredCorpus(corpus(lengths), tuple(parts), draw(st.sampled_from([1.0, 1.0, 3.0])))


class TestMixed:
    """Stages, shares and pools so small that some are empty."""

    @settings(deadline=None, max_examples=100)
    @given(mixed(), st.integers(1, 12), st.integers(1, 3), st.integers(1, 20), st.integers(1, 3))
    def test_from_any_step_on_it_is_the_tail_of_the_whole_stream(
        self, data: StoredCorpus, budget: int, each: int, step: int, pool: int
    ) -> None:
        with patch.object(module, "POOL_BATCHES", pool):
            whole = data.batches(budget, seed=2)
            for before in range(1, step):
                whole.take(before, each)
            tail = data.batches(budget, seed=2, start=whole.position)
            for now in range(step, step + 6):
                ours, theirs = ([one.make() for one in stream.take(now, each)] for stream in (whole, tail))
                assert whole.position == tail.position
                for left, right in zip(ours, theirs, strict=True):
                    assert left.target.values.tolist() == right.target.values.tolist()
                    assert left.source.values.tolist() == right.source.values.tolist()

    @settings(deadline=None, max_examples=100)
    @given(mixed(), st.integers(1, 12), st.integers(1, 3))
    def test_an_epoch_of_a_stage_is_what_the_mixture_says(self, data: StoredCorpus, budget: int, pool: int) -> None:
        with patch.object(module, "POOL_BATCHES", pool):
            mixture = Mixture(data.parts, temperature=data.temperature, seed=2)
            for stage, first in enumerate(mixture.stages):
                stream = data.batches(budget, seed=2, start=Position(stage))
                found: dict[int, list[int]] = {0: [], 1: [], 2: []}
                while (begun := stream.position).epoch < 2:
                    rows = next_rows(stream, first)
                    after = stream.position
                    assert after.stage == stage and after > begun
                    # the epoch of a batch: where its position ends up, unless it was the last one of its epoch
                    epoch = after.epoch if after.pool or after.batch else after.epoch - 1
                    found[epoch] += rows.tolist()
                for epoch in range(2):
                    wanted = mixture.rows(stage, epoch, 0, mixture.pairs(stage)).tolist()
                    assert sorted(found[epoch]) == sorted(wanted)

    @pytest.mark.parametrize("each", [1, 2, 5])
    def test_a_stage_begins_with_its_step(self, each: int) -> None:
        """Whatever was left of the epoch before; and with its own beginning."""
        parts = (Part(0, 60, last_step=4), Part(60, 50, first_step=3), Part(110, 40, first_step=8))
        data = StoredCorpus(corpus([(3, 4)] * 150), parts)
        stream = data.batches(8, seed=1)
        read: list[set[int]] = []
        for step in range(1, 12):
            batches = [one.make() for one in stream.take(step, each)]
            rows = {int(row[0]) for batch in batches for row in batch.target.split()}
            read.append({0 if row < 60 else 1 if row < 110 else 2 for row in rows})
            assert stream.position.stage == (step >= 3) + (step >= 5) + (step >= 8)
            if step in (3, 5, 8):
                assert stream.position == Position(stream.position.stage, 0, 0, each)
        assert all(found <= {0} for found in read[:2]) and all(found <= {0, 1} for found in read[2:4])
        assert all(found <= {1} for found in read[4:7]) and all(found <= {1, 2} for found in read[7:])
        assert set.union(*read[2:4]) == {0, 1} and set.union(*read[7:]) == {1, 2}

    def test_a_stage_without_parts_is_an_error_when_it_is_reached(self) -> None:
        data = StoredCorpus(corpus([(3, 4)] * 9), (Part(0, 9, last_step=2),))
        stream = data.batches(8, seed=1)
        stream.take(1, 1)
        stream.take(2, 1)
        with pytest.raises(DataError) as caught:
            stream.take(3, 1)
        assert str(caught.value) == (
            "data.train: at step 3 no corpus is left to train on; see first_step and last_step"
        )

    def test_a_store_without_parts_is_one_part(self) -> None:
        one, other = (
            StoredCorpus(MANY).batches(40, seed=1),
            StoredCorpus(MANY, (Part(0, len(MANY)),)).batches(40, seed=1),
        )
        for _ in range(60):
            assert next_rows(one).tolist() == next_rows(other).tolist()
        assert StoredCorpus(MANY).corpus_size == MANY.corpus_size


class Claimed:
    """An array of 10⁹ rows and more that is nowhere: entries are computed as they are read, and counted."""

    def __init__(self, size: int, times: int) -> None:
        self.size, self.times, self.read = size, times, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        assert isinstance(places, np.ndarray), "not a slice of it"
        assert places.size == 0 or (places.min() >= 0 and places.max() < self.size)
        self.read += places.size
        return places * self.times

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("all of it was requested")

    def __iter__(self) -> None:
        raise AssertionError("all of it was requested")


def claimed(rows: int) -> tuple[PairStore, list[Claimed]]:
    """Sources of 3 tokens, targets of 5."""
    arrays = [Claimed(rows * 3, 1), Claimed(rows + 1, 3), Claimed(rows * 5, 1), Claimed(rows + 1, 5)]
    source, target = TokenStore(arrays[0], arrays[1]), TokenStore(arrays[2], arrays[3])  # type: ignore[arg-type]
    return PairStore(source, target, CorpusSize(rows, rows * 3, rows * 5, 3, 5)), arrays


@pytest.mark.parametrize("rows", [10**5, 10**9])
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("start", [Position(), Position(0, 3, 1, 7)], ids=["at first", "going on"])
def test_beginning_anywhere_touches_a_pool_and_no_more(rows: int, parts: int, start: Position) -> None:
    pairs, arrays = claimed(rows)
    each = rows // parts
    data = StoredCorpus(pairs, tuple(Part(part * each, each) for part in range(parts)))
    stream = data.batches(1000, seed=1, start=start)
    assert not any(array.read for array in arrays), "nothing is read before it is needed"
    pool = pool_size(pairs.corpus_size, 1000)
    assert pool == 10_000
    [planned] = stream.take(1, 1)
    assert planned.target_tokens == 1000 and planned.source_tokens == 600
    assert 0 < sum(array.read for array in arrays) <= 10 * pool
    batch = planned.make()
    assert batch.target.rows == 200 and sum(array.read for array in arrays) <= 10 * pool
    stream.take(2, 30)
    assert sum(array.read for array in arrays) <= 12 * pool, "the pool is made once"
    for row, (first, *_) in zip(batch.source.split(), batch.target.split(), strict=True):
        assert row[0] * 5 == first * 3, "both sides are of the same pair"
