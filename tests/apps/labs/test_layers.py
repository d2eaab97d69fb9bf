"""The layers lab: its sentences, and what its probes tell of models that have hardly learned."""

from __future__ import annotations

from random import Random

import pytest

from weft.apps.labs.layers import FEATURES, GENDER, LAYERS, NUMBER, VOICE, WORD, Condition, draw, layers, trial


def test_the_sentences() -> None:
    random = Random(1)
    for _ in range(50):
        (source, target, _), labels = draw(random)
        words, french = source.split(), target.split()
        assert 5 <= len(words) <= 10 and words[0] == "the"
        assert (words[1][-1] == "s") == labels[NUMBER] == (french[0] == "les")
        assert (french[1].rstrip("s") in ("reine", "fille", "nonne")) == labels[GENDER]
        assert ("by" in words) == ("par" in french) == labels[VOICE]
        if labels[VOICE]:  # the participle agrees
            assert french[4].endswith("e" * labels[GENDER] + "s" * labels[NUMBER]) or french[4] == "pris"


def test_the_embedding_knows_the_word_and_no_gender_of_the_subject() -> None:
    result = trial(Condition("dot", 2, 200), 1)
    assert all(len(result[name]) == len(LAYERS) for name in FEATURES)
    assert result[WORD][0] > 90 and result[GENDER][0] < 70 and 0 <= result["right"] <= 100


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_what_has_learned_nothing_does_not_hold() -> None:
    assert layers(2, quick=True, steps=12).verdict.outcome != "held"
