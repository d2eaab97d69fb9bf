from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.store.token_store import CorpusSize, PairStore, TokenStore, offsets_of

quick = settings(deadline=None, max_examples=50)

ROWS = st.lists(st.lists(st.integers(0, 99_999), max_size=6), max_size=7)


def lists(store: TokenStore, rows: list[int]) -> list[list[int]]:
    return [row.tolist() for row in store.gather(np.array(rows, dtype=np.int64)).split()]


@quick
@given(ROWS)
def test_all_rows_come_back(rows: list[list[int]]) -> None:
    store = TokenStore.of(rows)
    assert len(store) == len(rows)
    assert lists(store, list(range(len(rows)))) == rows


@quick
@given(ROWS, st.data())
def test_gather_in_any_order_and_more_than_once(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)) if rows else []
    assert lists(TokenStore.of(rows), chosen) == [rows[row] for row in chosen]


@quick
@given(ROWS, st.data())
def test_the_lengths_of_any_rows(rows: list[list[int]], data: st.DataObject) -> None:
    store = TokenStore.of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)) if rows else []
    assert store.lengths.tolist() == [len(row) for row in rows]
    assert store.lengths_of(np.array(chosen, dtype=np.int64)).tolist() == [len(rows[row]) for row in chosen]


@quick
@given(st.lists(st.integers(0, 9), max_size=9))
def test_offsets_are_where_rows_begin_and_the_last_one_ends(lengths: list[int]) -> None:
    found = offsets_of(np.array(lengths, dtype=np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == [sum(lengths[:row]) for row in range(len(lengths) + 1)]


@quick
@given(ROWS)
def test_a_row_is_what_lies_between_two_offsets(rows: list[list[int]]) -> None:
    values = np.array([value for row in rows for value in row], dtype=np.int32)
    store = TokenStore(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))
    assert lists(store, list(range(len(rows)))) == rows


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
def test_mapped_files_are_as_good_as_arrays(tmp_path: Path, kind: type) -> None:
    rows = [[1, 2, 3], [], [4], [5, 6]]
    np.array([value for row in rows for value in row], dtype=kind).tofile(tmp_path / "values")
    offsets_of(np.array([len(row) for row in rows])).tofile(tmp_path / "offsets")
    offsets = np.memmap(tmp_path / "offsets", dtype=np.int64, mode="r")
    store = TokenStore(np.memmap(tmp_path / "values", dtype=kind, mode="r"), offsets)
    assert len(store) == 4 and lists(store, [3, 0, 1, 0]) == [[5, 6], [1, 2, 3], [], [1, 2, 3]]
    assert store.gather(np.array([2, 3])).values.tolist() == [4, 5, 6]


def test_of_takes_an_iterator() -> None:
    assert lists(TokenStore.of([number] * number for number in range(4)), [3, 0, 1]) == [[3, 3, 3], [], [1]]


def test_a_batch_is_its_own_copy() -> None:
    store = TokenStore.of([[1, 2], [3]])
    store.gather(np.array([0, 1])).values.fill_(9)
    assert store.values.tolist() == [1, 2, 3]


@quick
@given(st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=5))))
def test_pairs_stay_together(pairs: list[tuple[list[int], list[int]]]) -> None:
    store = PairStore(TokenStore.of(source for source, _ in pairs), TokenStore.of(target for _, target in pairs))
    assert len(store) == len(pairs)
    assert store.source.lengths.tolist() == [len(source) for source, _ in pairs]
    assert store.target.lengths.tolist() == [len(target) for _, target in pairs]
    backwards = np.arange(len(pairs))[::-1]
    batch = store.batch(backwards).to("cpu")
    sources = [row.tolist() for row in batch.source.split()]
    targets = [row.tolist() for row in batch.target.split()]
    assert list(zip(sources, targets, strict=True)) == pairs[::-1]


class TestCorpusSize:
    @quick
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    def test_is_counted(self, lengths: list[tuple[int, int]]) -> None:
        sides = [[source for source, _ in lengths], [target for _, target in lengths]]
        store = PairStore(*(TokenStore.of([7] * length for length in side) for side in sides))
        assert store.corpus_size == CorpusSize(
            len(lengths), sum(sides[0]), sum(sides[1]), max([1, *sides[0]]), max([1, *sides[1]])
        )

    def test_that_is_known_is_not_counted(self) -> None:
        known = CorpusSize(5, 6, 7, 8, 9)
        assert PairStore(TokenStore.of([[1]]), TokenStore.of([[2, 3]]), known).corpus_size is known

    @pytest.mark.parametrize(
        ("corpus_size", "mean"),
        [
            (CorpusSize(4, 10, 20, 5, 9), 5.0),
            (CorpusSize(4, 20, 10, 5, 9), 5.0),
            (CorpusSize(4, 0, 6, 1, 2), 1.5),
            (CorpusSize(0, 0, 0, 1, 1), 1.0),
        ],
    )
    def test_its_mean_is_of_the_fuller_side(self, corpus_size: CorpusSize, mean: float) -> None:
        assert corpus_size.mean_length == mean
