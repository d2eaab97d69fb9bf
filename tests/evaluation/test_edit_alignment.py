"""Alignments by the fewest edits, against Levenshtein's table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oracles.edit_table import backtrace, edit_table
from weft.evaluation.edit_alignment import align_units, closest_reference

TEXTS = st.text("abc", max_size=9)


@given(TEXTS, TEXTS)
def test_the_alignment_is_that_of_the_table(output: str, reference: str) -> None:
    aligned = align_units(output, reference)
    assert aligned == backtrace(output, reference)
    cost = sum(i is None or j is None or output[i] != reference[j] for i, j in aligned)
    assert cost == edit_table(output, reference)[-1][-1]
    assert [i for i, _ in aligned if i is not None] == list(range(len(output)))
    assert [j for _, j in aligned if j is not None] == list(range(len(reference)))


def test_words_and_long_sequences() -> None:
    assert align_units(["il", "a", "lu"], ["il", "lit"]) == [(0, 0), (1, 1), (2, None)]
    long = [str(number % 97) for number in range(500)]
    aligned = align_units([*long[:250], "x", *long[251:-1]], long)
    assert sum(i is None or j is None or i != j for i, j in aligned) == 1 and len(aligned) == 500
    assert align_units("", "") == []


def test_the_closest_reference() -> None:
    assert closest_reference("abc", ["xyz", "abd", "abe"]) == 1
    assert closest_reference("abc", ["abc"]) == 0
