"""Top-k accuracy."""

from __future__ import annotations

import pytest

from weft.evaluation.top_k import has_same_tokens, is_identical, top_k_accuracy

N_BEST = [["a", "b", "c"], ["d"], ["x", "y  z"]]
REFERENCES = [["c"], ["e", "d"], ["y z"]]


@pytest.mark.parametrize(("k", "identical", "same_tokens"), [(1, 1, 1), (2, 1, 2), (3, 2, 3), (9, 2, 3)])
def test_a_reference_among_the_first(k: int, identical: int, same_tokens: int) -> None:
    assert top_k_accuracy(N_BEST, REFERENCES, is_identical, k) == pytest.approx(100 * identical / 3)
    assert top_k_accuracy(N_BEST, REFERENCES, has_same_tokens, k) == pytest.approx(100 * same_tokens / 3)
