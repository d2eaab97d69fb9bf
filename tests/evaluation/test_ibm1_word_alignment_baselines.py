"""The diagonal."""

from __future__ import annotations

import pytest

import weft
from weft.evaluation.ibm1 import diagonal_links


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        ("a b c", "x y z", [(0, 0), (1, 1), (2, 2)]),
        ("a", "x y", [(0, 0), (0, 1)]),
        ("a b c d", "x y", [(1, 0), (3, 1)]),
    ],
)
def test_diagonal(source: str, target: str, links: list[tuple[int, int]]) -> None:
    assert diagonal_links(weft.Pair(source, target)) == links
