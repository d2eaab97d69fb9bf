"""Sentences about professions: what they say, and what they leave open."""

from __future__ import annotations

from random import Random

import pytest

from weft.apps.labs.professions import (
    MAN,
    WOMAN,
    WOMEN,
    Statement,
    fluency,
    french_sentences,
    is_feminine,
    majority,
    nonsense,
    statements,
)

STUDENT = Statement("student", "tired", "today")


def test_a_sentence_that_states_no_gender() -> None:
    assert STUDENT.pair(MAN)[:2] == ("today the student is tired", "aujourd'hui l'étudiant est fatigué")
    assert STUDENT.pair(WOMAN)[:2] == ("today the student is tired", "aujourd'hui l'étudiante est fatiguée")


def test_a_sentence_that_states_it() -> None:
    source, target = STUDENT._replace(verb="sleeps").pair(WOMAN)[:2]
    assert source == "today the student is tired and she sleeps"
    assert target == "aujourd'hui l'étudiante est fatiguée et elle dort"


def test_the_language() -> None:
    language = french_sentences()
    assert len(statements()) == 10 * 6 * 5 and len(language) == 2 * 3 * 300
    assert sum(is_feminine(sentence) for sentence in language) == len(language) // 2
    assert not is_feminine("aujourd'hui l'étudiant est fatigué") and not is_feminine("")


def test_the_share_of_the_majority() -> None:
    assert majority([*WOMEN.values()]) == pytest.approx(79)
    assert majority([float(share > 0.5) for share in WOMEN.values()]) == pytest.approx(100)
    assert majority([0.5] * len(WOMEN)) == pytest.approx(50)


def test_nonsense() -> None:
    kinds = nonsense(["today the clerk is tall", "now the agent is glad"], Random(1))
    assert kinds["ag ag ag …"] == ["ag ag", "ag ag ag"]
    assert sorted(kinds["shuffled words"][0].split()) == ["clerk", "is", "tall", "the", "today"]
    assert kinds["another script"][0] == "тодаы тхе цлерк ис талл"


def test_fluency() -> None:
    assert fluency("encore l'experte est contente et elle dort") == 100
    assert fluency("encore l'experte est contente et elle") == pytest.approx(100 * 6 / 7)  # no verb
    assert fluency("dort dort") == pytest.approx(100 / 3) and fluency("") == 0
