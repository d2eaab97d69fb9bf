"""Compares a student's functions with the reference of an exercise, and explains differences by known mistakes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from weft.apps.course.exercise import NONE, Case, Exercise
from weft.apps.course.values import first_difference, has_nan, has_text, is_array, kind_of, plain, shape_of
from weft.errors import plural

MAX_MISTAKES = 2
"""Mistakes that are recognized together."""


class TimeLimitExceeded(BaseException):
    """Raised inside a student's function; not an `Exception`, so that ``except Exception`` does not catch it."""


class Verdict(NamedTuple):
    """How a case ended."""

    case: str
    passed: bool
    problem: str = ""
    """The error in one line."""


class Judgment(NamedTuple):
    """All verdicts, and the hints that explain them."""

    verdicts: list[Verdict]
    hints: list[str]


class Outcome(NamedTuple):
    """The result of a call as plain values, or the error that it raised."""

    value: Any = None
    error: str = ""
    """The name of the exception; empty if there was none."""

    def same(self, other: Outcome) -> bool:
        if self.error or other.error:
            return self.error == other.error
        return first_difference(self.value, other.value) is None


def judge(
    exercise: Exercise, functions: Mapping[str, Any], report: Callable[[Verdict], None] = lambda verdict: None
) -> Judgment:
    """Run all cases. ``functions``: what the student's file defines; ``report`` is called after each case."""
    verdicts, outcomes, hints = [], [], []
    cases = exercise.cases()
    for case in cases:
        function = functions.get(case.function)
        verdict, outcome, hint = _run(exercise, case, function)
        verdicts.append(verdict)
        outcomes.append(outcome)
        hints += [hint] if hint else []
        report(verdict)
    if not all(verdict.passed for verdict in verdicts) and not any("not written yet" in v.problem for v in verdicts):
        hints = [*_explanations(exercise, cases, outcomes), *hints]
    return Judgment(verdicts, list(dict.fromkeys(hints)))


def _run(exercise: Exercise, case: Case, function: Any) -> tuple[Verdict, Outcome, str]:
    """The verdict of a case, what the student's function returned, and a hint that needs no known mistake."""
    title = f"{case.function}: {case.name}"
    if not callable(function):
        problem = f"{exercise.file_name} defines no function {case.function}"
        return Verdict(title, False, problem), Outcome(error="missing"), ""
    arguments = deepcopy(case.arguments)
    try:
        returned = function(*arguments)
        outcome = Outcome(plain(returned))
    except (Exception, TimeLimitExceeded) as error:
        problem = error_line(error, exercise.file_name)
        if isinstance(error, NotImplementedError):
            problem = f"{case.function} is not written yet"
        hint = case.error_hint if not isinstance(error, NotImplementedError | TimeLimitExceeded) else ""
        return Verdict(title, False, problem), Outcome(error=type(error).__name__), hint
    expected = exercise.expected(case)
    problem = _count_problem(returned, expected) or _problem(
        outcome.value, plain(expected), shows_values=case.shows_values, several=_is_several(expected)
    )
    if problem:
        hint = "NaN usually comes from ∞ − ∞ or from a softmax of −∞ only" if has_nan(outcome.value) else ""
        return Verdict(title, False, problem), outcome, hint
    if first_difference(plain(arguments), plain(case.arguments)) is not None:
        problem = "it changes its arguments; the caller still needs them"
        return Verdict(title, False, problem), outcome, "Work on a copy of what is passed in."
    return Verdict(title, True), outcome, ""


def _is_several(value: Any) -> bool:
    """Whether a function returns several values of which some are tensors, not one that is a tuple of words."""
    return isinstance(value, tuple) and any(hasattr(item, "shape") for item in value)


def _count_problem(given: Any, expected: Any) -> str:
    """How the number of returned values differs from the expected one; empty if it does not."""
    if given is None or not _is_several(expected):
        return ""
    count = len(given) if isinstance(given, list | tuple) else 1
    if count == len(expected):
        return ""
    return f"returned {plural(count, 'value')}, expected {len(expected)}, with a comma between them"


def _problem(given: Any, expected: Any, *, shows_values: bool, several: bool) -> str:
    """How a value differs from the expected one; empty if it does not."""
    difference = first_difference(given, expected)
    if difference is None:
        return ""
    if given is None:
        return "returned nothing; is there a return statement?"
    if not shows_values:
        return "returned another value than expected"
    if _shapes(given) != _shapes(expected) or (isinstance(expected, list) and has_text(expected)):
        return f"returned {_described(given, several)}, expected {_described(expected, several)}"
    at = f" at {difference.where}" if difference.where else ""
    return f"returned {difference.given}{at}, expected {difference.expected}"


def _shapes(value: Any) -> list[tuple[int, ...]]:
    """The shape of an array, or of each array in a list of them."""
    return [shape_of(item) for item in value] if isinstance(value, list) and not is_array(value) else [shape_of(value)]


def _described(value: Any, several: bool) -> str:
    """The shapes of several arrays, of one, or the value itself."""
    arrays = isinstance(value, list) and all(isinstance(item, list) and is_array(item) for item in value)
    if arrays and (several or not is_array(value)):
        return " and ".join(map(kind_of, value))
    return kind_of(value)


def error_line(error: BaseException, file_name: str) -> str:
    """``line 12: ValueError: …``, with the last line of the student's file that the error passed through."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == file_name
    ]
    if isinstance(error, SyntaxError) and Path(error.filename or "").name == file_name:
        lines = [error.lineno]
    at = f"line {lines[-1]}: " if lines and lines[-1] else ""
    if isinstance(error, TimeLimitExceeded):
        return f"{at}no result within {error}; is there a loop that never ends?"
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{at}{type(error).__name__}: {' '.join(reason.split())[:200]}".removesuffix(": ")


def _explanations(exercise: Exercise, cases: list[Case], outcomes: list[Outcome]) -> list[str]:
    """The hints of the fewest mistakes that reproduce all outcomes; if none do, of the one that reproduces
    most of them, a wrong one among these."""
    for mistakes in _sets(exercise):
        made = (_outcome(exercise, case, mistakes) for case in cases)
        if all(outcome.same(given) for outcome, given in zip(made, outcomes, strict=True)):
            return [exercise.mistakes[name] for name in exercise.mistakes if name in mistakes]
    wrong = {
        index
        for index, (case, given) in enumerate(zip(cases, outcomes, strict=True))
        if not given.error and not _outcome(exercise, case, NONE).same(given)
    }
    reproduced = {}
    for name in exercise.mistakes:
        made = (_outcome(exercise, case, frozenset({name})) for case in cases)
        same = [index for index, outcome in enumerate(made) if outcome.same(outcomes[index])]
        if wrong & set(same):
            reproduced[name] = len(same)
    return [exercise.mistakes[max(reproduced, key=lambda name: reproduced[name])]] if reproduced else []


def _sets(exercise: Exercise) -> Iterator[frozenset[str]]:
    for size in range(1, MAX_MISTAKES + 1):
        yield from map(frozenset, combinations(exercise.mistakes, size))


def _outcome(exercise: Exercise, case: Case, mistakes: frozenset[str]) -> Outcome:
    """The results of a solution with these mistakes."""
    try:
        return Outcome(plain(exercise.expected(case, mistakes)))
    except Exception as error:
        return Outcome(error=type(error).__name__)
