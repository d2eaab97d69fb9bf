"""The lookahead lab: its sentences, and a world in which nothing says which bank it is."""

from __future__ import annotations

from random import Random

import pytest

from weft.apps.labs.lookahead import CLUES, ENCODERS, SENSES, Condition, draw, lookahead, trial


def test_the_clue_decides() -> None:
    random = Random(1)
    for _ in range(50):
        sentence = draw(random)
        words = sentence.pair.source.split()
        clue = next(word for kinds in CLUES for word in kinds if word in words)
        assert clue in CLUES[sentence.sense] and SENSES[sentence.sense] in sentence.pair.target.split()
        assert (words.index(clue) < words.index("bank")) == sentence.before


def test_left_to_right_the_state_is_the_same_in_both_senses() -> None:
    """Before the clue, nothing differs: the probe is as good as chance, whatever was learned."""
    result = trial(Condition(next(iter(ENCODERS)), 2, 100, 4), 1)
    assert 30 < result["probe, clue after"] < 70


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_where_no_clue_is_nothing_is_told() -> None:
    result = lookahead(2, quick=True, clues=1, steps=30)
    assert result.verdict.outcome == "did not hold"
