"""Right solutions pass, wrong ones get the hint of their mistake, and no hint stands for two mistakes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from fixtures.course_solutions import RIGHT, WRONG, wrong_source
from weft.apps.course.exercise import Exercise
from weft.apps.course.exercises import EXERCISES
from weft.apps.course.judging import judge


def functions_of(source: str, name: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "student"}
    exec(compile(source, f"{name}.py", "exec"), namespace)
    return namespace


def with_mistake(exercise: Exercise, mistake: str) -> dict[str, Any]:
    return {name: partial(function, mistakes=frozenset({mistake})) for name, function in exercise.solutions.items()}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_right_solution_passes(name: str) -> None:
    judgment = judge(EXERCISES[name], functions_of(RIGHT[name], name))
    assert [verdict.problem for verdict in judgment.verdicts if not verdict.passed] == []
    assert judgment.hints == []


def test_there_are_thirty_wrong_solutions_for_eight_right_ones() -> None:
    assert len(RIGHT) >= 8 and len(WRONG) >= 30 and set(RIGHT) == set(EXERCISES)
    assert {name for name, *_ in WRONG} == set(EXERCISES)


@pytest.mark.parametrize(("name", "old", "new", "mistakes"), WRONG)
def test_a_wrong_solution_gets_its_hint(name: str, old: str, new: str, mistakes: set[str]) -> None:
    exercise = EXERCISES[name]
    judgment = judge(exercise, functions_of(wrong_source(name, old, new), name))
    assert not all(verdict.passed for verdict in judgment.verdicts)
    assert {exercise.mistakes[mistake] for mistake in mistakes} <= set(judgment.hints), judgment.hints
    assert len(set(judgment.hints) & set(exercise.mistakes.values())) == len(mistakes)


@pytest.mark.parametrize(("name", "mistake"), [(name, key) for name in EXERCISES for key in EXERCISES[name].mistakes])
def test_every_mistake_is_seen_and_told_from_the_others(name: str, mistake: str) -> None:
    """A case fails, and the hint is that of this mistake alone."""
    exercise = EXERCISES[name]
    judgment = judge(exercise, with_mistake(exercise, mistake))
    assert not all(verdict.passed for verdict in judgment.verdicts)
    assert exercise.mistakes[mistake] in judgment.hints
    assert len(set(judgment.hints) & set(exercise.mistakes.values())) == 1


def test_a_file_without_the_function() -> None:
    judgment = judge(EXERCISES["attention"], {})
    assert {verdict.problem for verdict in judgment.verdicts} == {"attention.py defines no function attention"}


def test_a_stub_is_not_written_yet() -> None:
    exercise = EXERCISES["bpe"]
    judgment = judge(exercise, functions_of(exercise.stub, "bpe"))
    assert judgment.verdicts[0].problem == "learn_merges is not written yet" and judgment.hints == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("pass", "returned nothing; is there a return statement?"),
        ("return Q", "returned 1 value, expected 2, with a comma between them"),
        ("return Q, Q, Q", "returned 3 values, expected 2, with a comma between them"),
        (
            "return Q, Q",
            "returned values of shape 1 × 64 and values of shape 1 × 64, "
            "expected values of shape 1 × 2 and values of shape 1 × 2",
        ),
        ("return 1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("return Q.nothing", "line 2: AttributeError: 'Tensor' object has no attribute 'nothing'"),
    ],
)
def test_problems_that_have_no_name(body: str, problem: str) -> None:
    source = f"def attention(Q, K, V):\n    {body}\n"
    verdict = judge(EXERCISES["attention"], functions_of(source, "attention")).verdicts[0]
    assert verdict.problem == problem


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("attention", "dim=-1", "dim=0", "returned 1.0000 at [0][0][0], expected 0.8808"),
        ("beam_search", "range(max_length)", "range(1)", "returned [['A'], -0.89"),
        ("bpe", "range(count)", "range(0)", "returned [], expected [['e', 's']]"),
        ("sampling", "            return i\n", "            return str(i)\n", "returned '1', expected 1"),
    ],
)
def test_differences_are_shown_as_values(name: str, old: str, new: str, problem: str) -> None:
    judgment = judge(EXERCISES[name], functions_of(wrong_source(name, old, new), name))
    problems = [verdict.problem for verdict in judgment.verdicts if verdict.problem]
    assert any(text.startswith(problem) for text in problems), problems
    assert not any(re.fullmatch(r"returned (.*), expected \1", text) for text in problems)


def test_arguments_must_stay_as_they_are() -> None:
    source = RIGHT["attention"].replace("    scores", "    Q /= math.sqrt(K.shape[-1])\n    scores", 1)
    source = source.replace("Q @ K.T / math.sqrt(K.shape[-1])", "Q @ K.T")
    judgment = judge(EXERCISES["attention"], functions_of(source, "attention"))
    assert all(verdict.problem.startswith("it changes its arguments") for verdict in judgment.verdicts)
    assert judgment.hints == ["Work on a copy of what is passed in."]


def test_two_mistakes_in_two_functions() -> None:
    source = wrong_source("bpe", "+= n", "+= 1").replace("for pair in merges:", "for pair in reversed(merges):")
    mistakes = EXERCISES["bpe"].mistakes
    judgment = judge(EXERCISES["bpe"], functions_of(source, "bpe"))
    assert judgment.hints == [mistakes["frequencies"], mistakes["reversed"]]
