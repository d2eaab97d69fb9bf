from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching import batches as shuffle
from weft.data.batching.batches import MAX_TABLE, ROUNDS, Permutation

quick = settings(deadline=None, max_examples=50)
KEYS = st.lists(st.integers(0, 2**40), min_size=1, max_size=4).map(tuple)


def all_of(size: int, key: tuple[int, ...]) -> np.ndarray:
    return Permutation(size, key)[np.arange(size)]


@pytest.fixture
def by_network() -> Iterator[None]:
    """Small sizes go through the network too."""
    with patch.object(shuffle, "MAX_TABLE", 0):
        yield


def chi_square(counts: np.ndarray) -> float:
    """Σ (found − expected)² / expected; its mean is about the number of cells, its deviation √(2 · cells)."""
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def is_even(counts: np.ndarray) -> bool:
    return chi_square(counts) < counts.size + 5 * np.sqrt(2 * counts.size)


class TestOneToOne:
    @quick
    @given(st.integers(0, 400), KEYS)
    def test_for_small_sizes(self, size: int, key: tuple[int, ...]) -> None:
        assert sorted(all_of(size, key).tolist()) == list(range(size))

    @pytest.mark.parametrize(
        "size", [MAX_TABLE - 1, MAX_TABLE, MAX_TABLE + 1, MAX_TABLE + 2, 2 * MAX_TABLE - 1, 2 * MAX_TABLE, 131_101]
    )
    @pytest.mark.parametrize("key", [(0,), (1, 2, 3, 4)])
    def test_about_the_size_where_the_list_ends(self, size: int, key: tuple[int, ...]) -> None:
        rows = all_of(size, key)
        assert rows.dtype == np.int64 and rows.min() == 0
        assert (np.bincount(rows, minlength=size) == 1).all() and len(rows) == size

    def test_by_the_network_for_every_small_size(self, by_network: None) -> None:
        for size in range(1, 301):
            for key in ((7,), (1, 0, 2, size)):
                assert sorted(all_of(size, key).tolist()) == list(range(size)), size

    @quick
    @given(st.integers(1, 3000), KEYS)
    def test_by_the_network_for_any_key(self, size: int, key: tuple[int, ...]) -> None:
        with patch.object(shuffle, "MAX_TABLE", 0):
            assert sorted(all_of(size, key).tolist()) == list(range(size))


def slow(place: int, size: int, key: tuple[int, ...]) -> int:
    """The network, one place at a time, in whole numbers."""
    bits = max((size - 1).bit_length(), 2)
    low = bits // 2
    keys = [int(one) for one in np.random.SeedSequence(list(key)).generate_state(ROUNDS, np.uint64)]
    while True:
        left, right = place >> low, place % 2**low
        for number, secret in enumerate(keys):
            value = (right + secret) % 2**64
            for _ in range(2):
                value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93 % 2**64
            value ^= value >> 32
            width = bits - low if number % 2 == 0 else low
            left, right = right, left ^ (value % 2**width)
        place = left * 2**low + right
        if place < size:
            return place


@quick
@given(st.one_of(st.integers(1, 300), st.integers(MAX_TABLE + 1, 2**62)), KEYS, st.data())
def test_the_network_is_what_it_is_in_whole_numbers(size: int, key: tuple[int, ...], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, size - 1), max_size=5))
    with patch.object(shuffle, "MAX_TABLE", 0):
        found = Permutation(size, key)[np.array(places, dtype=np.int64)]
    assert found.tolist() == [slow(place, size, key) for place in places]


class TestKeys:
    @pytest.mark.parametrize("size", [1000, MAX_TABLE + 1000])
    def test_another_key_is_another_order(self, size: int) -> None:
        keys = [(1,), (2,), (1, 1), (1, 2), (2, 1), (1, 0, 0, 1), (1, 0, 1, 0)]
        orders = [all_of(size, key) for key in keys]
        for place, order in enumerate(orders):
            for other in orders[:place]:
                assert (order == other).mean() < 0.01

    @pytest.mark.parametrize("size", [1000, MAX_TABLE + 1000])
    def test_the_same_key_is_the_same_order(self, size: int) -> None:
        once = all_of(size, (3, 4))
        np.random.seed(0)
        shuffle._table.cache_clear()
        shuffle._round_keys.cache_clear()
        assert (all_of(size, (3, 4)) == once).all()

    def test_what_comes_out_may_be_changed(self) -> None:
        """It is no view of a list that is kept."""
        once = all_of(10, (1,)).tolist()
        all_of(10, (1,)).fill(0)
        assert all_of(10, (1,)).tolist() == once


class TestParts:
    @quick
    @given(st.one_of(st.integers(1, 300), st.integers(MAX_TABLE + 1, 2**62)), KEYS, st.data())
    def test_any_places_come_without_the_others(self, size: int, key: tuple[int, ...], data: st.DataObject) -> None:
        """A list of the larger ones would not fit anywhere."""
        places = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=30, unique=True))
        order = Permutation(size, key)
        together = order[np.array(places)]
        assert [int(order[np.array([place])][0]) for place in places] == together.tolist()
        assert len(set(together.tolist())) == len(places) and together.min() >= 0 and together.max() < size

    @pytest.mark.parametrize("size", [5, MAX_TABLE + 5])
    def test_no_places(self, size: int) -> None:
        assert Permutation(size, (1,))[np.zeros(0, dtype=np.int64)].tolist() == []

    def test_places_are_left_alone(self) -> None:
        places = np.arange(100)
        Permutation(10**9, (1,))[places]
        assert places.tolist() == list(range(100))


class TestChance:
    """Counts that a fair shuffle would give; seeds are fixed, so these never fail by chance."""

    @pytest.mark.parametrize("size", [40, 129])
    def test_every_row_comes_to_every_place(self, by_network: None, size: int) -> None:
        """Halves of a bit or two are too narrow for that; but such sizes are lists."""
        counts = np.zeros((size, size))
        for key in range(1000):
            counts[np.arange(size), all_of(size, (key,))] += 1
        assert is_even(counts)

    def test_every_order_comes(self, by_network: None) -> None:
        names = {order: place for place, order in enumerate(permutations(range(4)))}
        counts = np.zeros(len(names))
        for key in range(24 * 60):
            counts[names[tuple(all_of(4, (key,)).tolist())]] += 1
        assert (counts > 0).all()

    @pytest.mark.parametrize("size", [60_000, MAX_TABLE + 1, 100_003, 2**17, 150_000])
    @pytest.mark.parametrize("key", [(1,), (5, 0, 0, 1)])
    def test_places_say_nothing_about_rows(self, size: int, key: tuple[int, ...]) -> None:
        rows, places = all_of(size, key), np.arange(size)
        counts, _, _ = np.histogram2d(places, rows, bins=20)
        assert is_even(counts)
        assert is_even(np.bincount((rows - places) % size * 30 // size, minlength=30))

    @pytest.mark.parametrize("size", [MAX_TABLE + 1, 2**17, 150_000, 10**9, 10**12])
    def test_neighbors_are_no_neighbors(self, size: int) -> None:
        rows = Permutation(size, (9, 1))[np.arange(50_000)]
        steps = np.diff(rows) % size
        assert is_even(np.bincount(steps * 30 // size, minlength=30))
        counts, _, _ = np.histogram2d(rows[:-1], rows[1:], bins=15, range=[[0, size], [0, size]])
        assert is_even(counts)
        assert is_even(np.bincount(rows % 16, minlength=16)), "low bits too"

    def test_one_epoch_says_nothing_about_the_next(self) -> None:
        size = MAX_TABLE + 7
        first, second = (all_of(size, (1, 0, 0, turn)) for turn in range(2))
        counts, _, _ = np.histogram2d(first, second, bins=20)
        assert is_even(counts)
