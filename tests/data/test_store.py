from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.store import PairStore, TokenStore

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
