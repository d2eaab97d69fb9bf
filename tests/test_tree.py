from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from weft.tree import Tree, first, keep, map_tree, repeat, select
from weft.tree import leaves as tensor_leaves

quick = settings(deadline=None, max_examples=50)


class Pair(NamedTuple):
    left: Tree
    right: Tree


def leaves(rows: int) -> st.SearchStrategy[Tree]:
    leaf = st.lists(st.integers(0, 9), min_size=rows, max_size=rows).map(
        lambda values: torch.tensor(values)[:, None].expand(-1, 2).clone()
    )
    return st.recursive(
        st.none() | leaf,
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.builds(Pair, inner, inner),
        max_leaves=5,
    )


def same(one: Tree, other: Tree) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other)


@quick
@given(leaves(5), st.lists(st.integers(0, 4), max_size=7))
def test_select_takes_the_same_rows_of_every_leaf(tree: Tree, rows: list[int]) -> None:
    expected = map_tree(lambda leaf: leaf[rows] if rows else leaf[:0], tree)
    assert same(select(tree, torch.tensor(rows, dtype=torch.int64)), expected)


@quick
@given(leaves(3), st.integers(1, 4))
def test_repeat_puts_copies_side_by_side(tree: Tree, times: int) -> None:
    rows = torch.tensor([row for row in range(3) for _ in range(times)])
    assert same(repeat(tree, times), select(tree, rows))


@quick
@given(leaves(5), st.integers(0, 5))
def test_first(tree: Tree, count: int) -> None:
    assert same(first(tree, count), select(tree, torch.arange(count)))


@quick
@given(leaves(4))
def test_map_keeps_the_shape_of_the_tree(tree: Tree) -> None:
    assert same(map_tree(lambda leaf: leaf.clone(), tree), tree)


def test_a_named_tuple_stays_one() -> None:
    tree = Pair((torch.arange(3), None), Pair(torch.arange(3), ()))
    taken = select(tree, torch.tensor([2, 0]))
    assert isinstance(taken, Pair) and isinstance(taken.right, Pair)
    assert isinstance(taken.left[0], Tensor) and taken.left[0].tolist() == [2, 0]
    assert taken.left[1] is None and taken.right.right == ()


class Cache(NamedTuple):
    """A state with rows of its own, as `RowState` describes it."""

    values_RT: Tensor
    calls: tuple[Tensor, ...] = ()

    def select_rows(self, rows: Tensor) -> Cache:
        return self._replace(calls=(*self.calls, rows))

    def keep_rows(self, rows: Tensor) -> Cache:
        return Cache(self.values_RT[rows])


def test_a_state_may_select_its_own_rows() -> None:
    rows = torch.tensor([2, 0])
    tree = Pair(torch.arange(3), (Cache(torch.arange(6).view(3, 2)), None))
    selected = select(tree, rows)
    assert selected.left.tolist() == [2, 0]
    assert selected.right[0].values_RT is tree.right[0].values_RT and selected.right[0].calls == (rows,)
    assert keep(tree, rows).right[0].values_RT.tolist() == [[4, 5], [0, 1]]


def test_leaves_are_the_tensors_in_order() -> None:
    one, two, three = (torch.full((2, 1), value) for value in (1, 2, 3))
    tree = Pair((one, None), Pair((), (two, three)))
    assert [int(leaf[0, 0]) for leaf in tensor_leaves(tree)] == [1, 2, 3]
    assert list(tensor_leaves(None)) == [] and list(tensor_leaves(one)) == [one]
