"""Hypotheses as arrays: what is read of them is what a search found."""

import numpy as np
import pytest

from weft.search.ranking import BY_CONSTRAINTS, BY_END, BY_LENGTH, HypothesisArrays, PendingHypotheses

ARRAYS = HypothesisArrays(
    counts_B=np.array([2, 1, 1]),
    tokens_BNT=np.array([[[5, 6, 2], [7, 8, 9]], [[2, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]),
    lengths_BN=np.array([[3, 3], [1, 0], [0, 0]]),
    ended_BN=np.array([[BY_END, BY_LENGTH], [BY_END, BY_END], [BY_CONSTRAINTS, BY_END]]),
    scores_BN=np.array([[-1.0, -2.0], [-0.5, 0.0], [0.0, 0.0]]),
    log_probabilities_BN=np.array([[-3.0, -6.0], [-0.5, 0.0], [0.0, 0.0]]),
    token_scores_BNT=-np.ones((3, 2, 3)),
    gaps=np.array([[0.25, np.nan], [0.0, np.nan], [np.nan, np.nan]]),
)


def test_hypotheses_are_made_of_them() -> None:
    (best, cut_off), (empty,), (stuck,) = ARRAYS
    assert best.tokens == [5, 6] and best.token_scores == [-1.0] * 3 and best.ended == "end" and best.gap == 0.25
    assert cut_off.tokens == [7, 8, 9] and cut_off.ended == "length" and cut_off.gap is None
    assert empty.tokens == [] and empty.token_scores == [-1.0] and empty.log_probability == -0.5 and empty.proven
    assert stuck.tokens == stuck.token_scores == [] and stuck.ended == "constraints" and stuck.score == 0.0
    assert ARRAYS.token_counts_BN[:, 0].tolist() == [2, 0, 0]
    assert ARRAYS.best_tokens() == [[5, 6], [], []]


def test_a_sequence_of_lists() -> None:
    assert len(ARRAYS) == 3 and [len(row) for row in ARRAYS] == [2, 1, 1]
    assert ARRAYS[1:] == [ARRAYS[1], ARRAYS[2]] and ARRAYS[-1] == ARRAYS[2]
    assert list(ARRAYS) == ARRAYS and list(ARRAYS) == ARRAYS and ARRAYS != [] and ARRAYS != 3
    with pytest.raises(IndexError):
        ARRAYS[3]


def test_a_part_of_the_sentences():
    assert ARRAYS.part(slice(1, 3)) == ARRAYS[1:3]
    assert ARRAYS.part(slice(1, 3))[0][0].gap == ARRAYS[1][0].gap


def test_hypotheses_are_computed_when_they_are_first_read():
    computed = []

    def compute():
        computed.append(True)
        return ARRAYS

    pending = PendingHypotheses(len(ARRAYS), compute)
    assert len(pending) == len(ARRAYS) and not computed
    assert pending == ARRAYS and pending[1:] == ARRAYS[1:] and pending.arrays is ARRAYS
    assert len(computed) == 1
