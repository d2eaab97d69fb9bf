"""Where tags go in a translation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.texts.placement import Node, Words, links_of, place


def words_of(source: int, target: int, pairs: list[tuple[int, int]], boundaries: dict[int, int] | None = None) -> Words:
    return Words(source, target, links_of(pairs, source, target), {0: 0, source: target} | (boundaries or {}))


def tree_of(*nodes: Node) -> list[Node]:
    tree = list(nodes)
    for index, node in enumerate(tree):
        if index:
            tree[node.parent].children.append(index)
    return tree


class TestSpans:
    @pytest.mark.parametrize(
        ("span", "links", "expected"),
        [
            ((1, 2), [(0, 0), (1, 1), (2, 2)], (1, 2)),
            ((1, 2), [(0, 2), (1, 0), (2, 1)], (0, 1)),  # moved
            ((0, 2), [(0, 0), (1, 2), (2, 1)], (0, 1)),  # a word of another span between: the first stretch of one
            ((0, 2), [(0, 0), (1, 1), (0, 3), (2, 2)], (0, 2)),  # a stray link is left out
            ((0, 3), [], (0, 4)),  # the whole
            ((1, 2), [(0, 0), (2, 3)], (1, 2)),  # without links: beside its neighbor
        ],
    )
    def test_the_words_that_are_linked(
        self, span: tuple[int, int], links: list[tuple[int, int]], expected: tuple[int, int]
    ) -> None:
        tree = tree_of(Node(-1, 0, 3), Node(0, *span))
        assert place(tree, words_of(3, 4, links))[1] == expected

    def test_up_to_the_ends_of_sentences(self) -> None:
        tree = tree_of(Node(-1, 0, 4), Node(0, 0, 2))
        assert place(tree, words_of(4, 5, [(0, 1), (3, 3)], {2: 3}))[1] == (0, 3), "unlinked words at both ends"

    def test_without_any_link_along_the_diagonal(self) -> None:
        tree = tree_of(Node(-1, 0, 4), Node(0, 1, 2))
        assert place(tree, words_of(4, 8, []))[1] == (2, 4)

    def test_more_spans_than_words(self) -> None:
        tree = tree_of(Node(-1, 0, 3), *(Node(0, word, word + 1) for word in range(3)))
        assert sorted(place(tree, words_of(3, 1, [(0, 0), (1, 0), (2, 0)]))[1:]) == [(0, 1), (1, 1), (1, 1)]


class TestPoints:
    @pytest.mark.parametrize(
        ("word", "left", "right", "expected"),
        [
            (0, " ", " ", 0),
            (3, " ", " ", 4),
            (1, "a", " ", 3),  # after the word that it stood at, which has moved to the end
            (1, " ", "a", 1),  # before the word that it stood at
            (2, " ", " ", 2),
        ],
    )
    def test_beside_their_words(self, word: int, left: str, right: str, expected: int) -> None:
        tree = tree_of(Node(-1, 0, 3), Node(0, word, word, True, left, right))
        assert place(tree, words_of(3, 4, [(0, 2), (1, 1), (2, 3)]))[1] == (expected, expected)

    def test_not_within_spans_beside_them(self) -> None:
        tree = tree_of(Node(-1, 0, 3), Node(0, 0, 2), Node(0, 2, 2, True))
        placed = place(tree, words_of(3, 3, [(0, 0), (1, 1), (0, 2), (2, 1)]))
        assert placed[2][0] <= placed[1][0] or placed[2][0] >= placed[1][1]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Node], Words]:
    source, target = draw(st.integers(1, 7)), draw(st.integers(0, 7))
    nodes = [Node(-1, 0, source)]
    for _ in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from([index for index, node in enumerate(nodes) if not node.is_point]))
        before = [nodes[child].last for child in nodes[parent].children]
        first = draw(st.integers(max([nodes[parent].first, *before]), nodes[parent].last))
        is_point = draw(st.booleans())
        last = first if is_point else draw(st.integers(first, nodes[parent].last))
        nodes[parent].children.append(len(nodes))
        nodes.append(Node(parent, first, last, is_point))
    pairs = [] if not target else draw(st.lists(st.tuples(st.integers(0, source - 1), st.integers(0, target - 1))))
    return nodes, words_of(source, target, pairs)


@given(trees())
def test_always_nested_well(tree: tuple[list[Node], Words]) -> None:
    nodes, words = tree
    placed = place(nodes, words)
    for index, node in enumerate(nodes):
        start, end = placed[index]
        assert 0 <= start <= end <= words.target
        if index:
            assert placed[node.parent][0] <= start and end <= placed[node.parent][1]
        others = sorted(placed[child] for child in node.children if placed[child][0] < placed[child][1])
        assert all(left[1] <= right[0] for left, right in pairwise(others))
        for child in node.children:
            boundary, is_empty = placed[child][0], placed[child][0] == placed[child][1]
            assert not is_empty or not any(left < boundary < right for left, right in others)
