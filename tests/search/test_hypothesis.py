from __future__ import annotations

import pytest

from weft.search.hypothesis import normalised


@pytest.mark.parametrize(
    ("total", "length", "penalty", "score"),
    [(-6.0, 3, 0.0, -6.0), (-6.0, 3, 1.0, -2.0), (-6.0, 4, 0.5, -3.0), (-6.0, 1, 1.0, -6.0), (0.0, 5, 1.0, 0.0)],
)
def test_normalised(total: float, length: int, penalty: float, score: float) -> None:
    assert normalised(total, length, penalty) == pytest.approx(score)
