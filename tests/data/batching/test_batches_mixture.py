from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching.batches import RESOLUTION, Mixture, Part, Permutation
from weft.errors import DataError

quick = settings(deadline=None, max_examples=100)
SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)
WEIGHTS = st.one_of(st.none(), st.floats(0.001, 1000))


def parts_of(sizes: list[int], weights: list[float | None] | None = None, variants: int = 1) -> list[Part]:
    """Parts one after the other in a store."""
    starts = np.cumsum([0, *sizes]) * variants
    given = weights or [None] * len(sizes)
    return [
        Part(int(start), size, variants, weight) for start, size, weight in zip(starts[:-1], sizes, given, strict=True)
    ]


def walked(mixture: Mixture, stage: int, count: int) -> list[list[tuple[int, int]]]:
    """Pair by pair: which part's turn it is and which of its rows comes. A part is behind where it has read fewer
    pairs than its share of those there were, in whole pairs."""
    parts = mixture.active_parts(stage)
    weights = mixture.weights(stage)
    read = [0] * len(parts)
    steps: list[list[tuple[int, int]]] = []
    for place in range(1, count + 1):
        steps.append([])
        for index, (number, part) in enumerate(parts):
            while Fraction(place * weights[index], sum(weights)) >= read[index] + 1:
                turn, inside = divmod(read[index], part.pairs)
                order = Permutation(part.pairs, (mixture.seed, stage, number, turn))[np.arange(part.pairs)].tolist()
                steps[-1].append((number, part.start + turn % part.variants * part.pairs + order[inside]))
                read[index] += 1
    return steps


def part_after_part(steps: list[list[tuple[int, int]]]) -> list[int]:
    return [row for _, row in sorted((one for step in steps for one in step), key=lambda one: one[0])]


@quick
@given(SIZES, st.booleans(), st.integers(1, 3), st.sampled_from([1.0, 2.0, 5.0]), st.data())
def test_rows_are_those_of_a_walk_pair_by_pair(
    sizes: list[int], weighted: bool, variants: int, temperature: float, data: st.DataObject
) -> None:
    weights = [data.draw(WEIGHTS) for _ in sizes] if weighted else None
    mixture = Mixture(parts_of(sizes, weights, variants), temperature=temperature, seed=data.draw(st.integers(0, 9)))
    whole = mixture.pairs(0)
    assert whole == sum(sizes)
    steps = walked(mixture, 0, 3 * whole)
    for epoch in range(3):
        first = data.draw(st.integers(0, whole))
        last = data.draw(st.integers(first, whole))
        found = mixture.rows(0, epoch, first, last)
        assert found.dtype == np.int64
        assert found.tolist() == part_after_part(steps[epoch * whole + first : epoch * whole + last])


@quick
@given(SIZES, st.integers(1, 7), st.integers(0, 4), st.integers(0, 3))
def test_by_size_every_pair_comes_once_an_epoch(sizes: list[int], pool: int, epoch: int, seed: int) -> None:
    mixture = Mixture(parts_of(sizes), seed=seed)
    whole = sum(sizes)
    pools = [mixture.rows(0, epoch, first, min(first + pool, whole)) for first in range(0, whole, pool)]
    assert sorted(np.concatenate(pools).tolist()) == list(range(whole))
    assert all(abs(len(rows) - pool) <= len(sizes) for rows in pools[:-1])


def test_by_size_a_pool_has_of_every_part_its_share() -> None:
    mixture = Mixture(parts_of([1000, 300, 10]), seed=1)
    for first in range(0, 1200, 131):
        rows = mixture.rows(0, 2, first, first + 131)
        counts = [
            int(((rows >= start) & (rows < stop)).sum()) for start, stop in ((0, 1000), (1000, 1300), (1300, 1310))
        ]
        assert counts == pytest.approx([100, 30, 1], abs=1)


class TestShares:
    @quick
    @given(SIZES, st.data())
    def test_are_kept_to_within_a_pair_at_every_point(self, sizes: list[int], data: st.DataObject) -> None:
        weights = [data.draw(st.integers(1, 9)) for _ in sizes]
        mixture = Mixture(parts_of(sizes, [float(weight) for weight in weights]), seed=1)
        there = dict(enumerate(part for part in parts_of(sizes) if part.pairs))
        shares = [weight for weight, size in zip(weights, sizes, strict=True) if size]
        whole = sum(sizes)
        read: Counter[int] = Counter()
        for place in range(1, 4 * whole + 1):
            epoch, inside = divmod(place - 1, whole)
            for row in mixture.rows(0, epoch, inside, inside + 1).tolist():
                read[next(n for n, part in there.items() if part.start <= row < part.start + part.pairs)] += 1
            for number in there:
                assert abs(read[number] - Fraction(place * shares[number], sum(shares))) <= 1

    @quick
    @given(SIZES, st.integers(1, 3), st.integers(1, 11), st.data())
    def test_a_part_is_finished_before_it_begins_again(
        self, sizes: list[int], variants: int, pool: int, data: st.DataObject
    ) -> None:
        """Each of its pairs once a pass, in another variant than in the pass before."""
        weights = [data.draw(st.floats(0.1, 9)) for _ in sizes]
        parts = parts_of(sizes, list(weights), variants)
        mixture = Mixture(parts, seed=3)
        whole = sum(sizes)
        rows = [
            row
            for epoch in range(4)
            for first in range(0, whole, pool)
            for row in mixture.rows(0, epoch, first, min(first + pool, whole)).tolist()
        ]
        for part in parts:
            own = [row - part.start for row in rows if part.start <= row < part.start + part.pairs * variants]
            for turn, first in enumerate(range(0, len(own), max(part.pairs, 1))):
                once = own[first : first + part.pairs]
                assert {row // part.pairs for row in once} == {turn % variants}
                inside = [row % part.pairs for row in once]
                assert len(set(inside)) == len(inside)

    def test_passes_differ_in_their_order(self) -> None:
        mixture = Mixture([Part(0, 50)], seed=1)
        orders = {tuple(mixture.rows(0, epoch, 0, 50).tolist()) for epoch in range(5)}
        assert len(orders) == 5
        assert tuple(Mixture([Part(0, 50)], seed=2).rows(0, 0, 0, 50).tolist()) not in orders

    def test_parts_of_the_same_size_differ_in_their_order(self) -> None:
        rows = Mixture(parts_of([50, 50]), seed=1).rows(0, 0, 0, 100)
        assert rows[:50].tolist() != (rows[50:] - 50).tolist()

    def test_a_part_without_a_weight_weighs_one(self) -> None:
        weights = Mixture(parts_of([3, 4, 5], [2.0, None, 0.5]), seed=1).weights(0)
        assert [weight / sum(weights) for weight in weights] == pytest.approx([4 / 7, 2 / 7, 1 / 7])

    def test_weights_are_shares_whatever_their_sum(self) -> None:
        assert Mixture(parts_of([3, 4], [1.0, 3.0]), seed=1).weights(0) == [RESOLUTION // 4, RESOLUTION * 3 // 4]
        assert Mixture(parts_of([3, 4], [0.25, 0.75]), seed=1).weights(0) == [RESOLUTION // 4, RESOLUTION * 3 // 4]

    def test_weights_count_more_than_the_temperature(self) -> None:
        given = Mixture(parts_of([3, 900], [1.0, 3.0]), temperature=5.0, seed=1)
        assert given.weights(0) == [RESOLUTION // 4, RESOLUTION * 3 // 4]

    def test_a_small_part_is_repeated_and_a_large_one_not_finished(self) -> None:
        mixture = Mixture(parts_of([10, 190], [1.0, 1.0]), seed=1)
        counts = Counter(mixture.rows(0, 0, 0, 200).tolist())
        assert all(counts[row] == 10 for row in range(10))
        assert sum(counts[row] for row in range(10, 200)) == 100 and max(counts[row] for row in range(10, 200)) == 1

    def test_even_the_smallest_share_is_read_at_some_time(self) -> None:
        assert min(Mixture(parts_of([3, 4], [1e-30, 1.0]), seed=1).weights(0)) == 1


class TestTemperature:
    @quick
    @given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.floats(1.01, 50))
    def test_is_a_root_of_the_size(self, sizes: list[int], temperature: float) -> None:
        weights = Mixture(parts_of(sizes), temperature=temperature, seed=1).weights(0)
        wanted = [size ** (1 / temperature) for size in sizes]
        shares = [weight / sum(weights) for weight in weights]
        assert shares == pytest.approx([one / sum(wanted) for one in wanted], rel=1e-5)

    def test_by_hand(self) -> None:
        weights = Mixture(parts_of([100, 10_000]), temperature=2.0, seed=1).weights(0)
        assert weights[1] / weights[0] == pytest.approx(10, rel=1e-9)

    def test_of_one_is_by_size(self) -> None:
        assert Mixture(parts_of([3, 5, 11]), temperature=1.0, seed=1).weights(0) == [3, 5, 11]

    def test_of_infinity_is_all_alike(self) -> None:
        weights = Mixture(parts_of([1, 10**6]), temperature=1e12, seed=1).weights(0)
        assert weights[0] / weights[1] == pytest.approx(1, abs=1e-6)


def test_variants_take_turns() -> None:
    """A part that is stored three times, cut differently: one after the other, and again."""
    mixture = Mixture([Part(100, 20, variants=3), Part(160, 20)], seed=1)
    for epoch in range(7):
        rows = mixture.rows(0, epoch, 0, 40)
        start = 100 + epoch % 3 * 20
        assert sorted(rows[:20].tolist()) == list(range(start, start + 20))
        assert sorted(rows[20:].tolist()) == list(range(160, 180))


class TestStages:
    PARTS = (Part(0, 4), Part(4, 5, last_step=10), Part(9, 6, first_step=7), Part(15, 7, first_step=11, last_step=20))

    def test_begin_where_parts_come_or_go(self) -> None:
        mixture = Mixture(self.PARTS, seed=1)
        assert mixture.stages == [1, 7, 11, 21]
        steps = {1: 0, 6: 0, 7: 1, 10: 1, 11: 2, 20: 2, 21: 3, 10**9: 3}
        assert {step: mixture.stage_of(step) for step in steps} == steps
        read = [[number for number, _ in mixture.active_parts(stage)] for stage in range(4)]
        assert read == [[0, 1], [0, 1, 2], [0, 2, 3], [0, 2]]
        assert [mixture.pairs(stage) for stage in range(4)] == [9, 15, 17, 10]

    @quick
    @given(
        st.lists(st.tuples(st.integers(1, 12), st.one_of(st.none(), st.integers(0, 14))), max_size=4),
        st.integers(1, 20),
    )
    def test_at_every_step_just_its_parts_are_read(self, times: list[tuple[int, int | None]], step: int) -> None:
        parts = [Part(0, 2), *(Part(2, 3, first_step=first, last_step=last) for first, last in times)]
        mixture = Mixture(parts, seed=1)
        wanted = [
            number
            for number, part in enumerate(parts)
            if step >= part.first_step and (part.last_step is None or step <= part.last_step)
        ]
        assert [number for number, _ in mixture.active_parts(mixture.stage_of(step))] == wanted

    def test_one_stage_where_no_part_has_a_time(self) -> None:
        mixture = Mixture(parts_of([3, 4]), seed=1)
        assert mixture.stages == [1] and mixture.stage_of(1) == mixture.stage_of(10**6) == 0

    def test_each_has_its_own_order(self) -> None:
        mixture = Mixture([Part(0, 50), Part(50, 1, last_step=3)], seed=1)
        first, second = (mixture.rows(stage, 0, 0, mixture.pairs(stage)).tolist() for stage in (0, 1))
        assert sorted(second) == list(range(50)) and [row for row in first if row < 50] != second

    @pytest.mark.parametrize(
        ("parts", "first"),
        [
            ([Part(0, 3, last_step=4)], 5),
            ([Part(0, 3, first_step=2)], 1),
            ([Part(0, 3, last_step=4), Part(3, 3, first_step=8)], 5),
            ([Part(0, 3, last_step=4), Part(3, 0)], 5),
        ],
    )
    def test_none_may_be_empty(self, parts: list[Part], first: int) -> None:
        mixture = Mixture(parts, seed=1)
        message = f"data.train: at step {first} no corpus is left to train on; see first_step and last_step"
        for action in (lambda: mixture.check(first), lambda: mixture.active_parts(mixture.stage_of(first))):
            with pytest.raises(DataError) as caught:
                action()
            assert str(caught.value) == message
        mixture.check(first - 1)

    def test_what_a_run_does_not_come_to_is_not_asked_for(self) -> None:
        Mixture([Part(0, 3, last_step=4)], seed=1).check(4)
        Mixture(self.PARTS, seed=1).check(10**9)


class TestEmptyParts:
    @pytest.mark.parametrize("parts", [[], [Part(0, 0)], [Part(0, 0), Part(0, 0, weight=3.0)]])
    def test_alone_are_refused(self, parts: list[Part]) -> None:
        with pytest.raises(DataError, match=r"^there are no pairs to make batches of$"):
            Mixture(parts, seed=1)

    def test_among_others_are_as_if_they_were_not_there(self) -> None:
        without = Mixture([Part(0, 5, weight=2.0), Part(5, 7, weight=1.0)], seed=1)
        parts = [Part(0, 0, weight=9.0), Part(0, 5, weight=2.0), Part(5, 0, last_step=3), Part(5, 7, weight=1.0)]
        mixture = Mixture(parts, seed=1)
        assert mixture.stages == [1] and mixture.weights(0) == without.weights(0)
        assert mixture.rows(0, 1, 0, 12).tolist() == without.rows(0, 1, 0, 12).tolist()


def test_pools_of_a_pair_may_come_out_empty_and_nothing_is_lost() -> None:
    mixture = Mixture(parts_of([1] * 5), seed=1)
    pools = [mixture.rows(0, 0, place, place + 1).tolist() for place in range(5)]
    assert pools == [[], [], [], [], [0, 1, 2, 3, 4]]


def test_far_into_a_large_corpus_shares_are_exact() -> None:
    """Whole numbers have no largest one: nothing runs over after many epochs."""
    parts = [Part(0, 10**12 + 39), Part(10**12 + 39, 7 * 10**11)]
    mixture = Mixture(parts, seed=1)
    whole = mixture.pairs(0)
    rows = mixture.rows(0, 10**6, whole - 1000, whole)
    assert len(set(rows.tolist())) == len(rows) and abs(len(rows) - 1000) <= 2
    assert int((rows < parts[1].start).sum()) == pytest.approx(588, abs=1)
