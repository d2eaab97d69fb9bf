"""Ranking what a beam has set aside: the best alone is found as it is among all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from weft.search.beam import _best, _in_order

SCORES = some.sampled_from([-np.inf, -3.0, -2.0, -2.0, -1.0])


@given(
    rows=some.lists(some.lists(SCORES, min_size=5, max_size=5), min_size=1, max_size=4), finished=some.integers(1, 4)
)
def test_the_best_alone(rows: list[list[float]], finished: int) -> None:
    scores = np.array(rows)
    index, next_score = _best(scores, finished)
    expected, expected_next = _in_order(scores, np.arange(5) >= finished, 1)
    exists = (scores > -np.inf).any(1)
    assert (index == expected)[exists].all()
    assert (next_score == expected_next)[exists].all()
