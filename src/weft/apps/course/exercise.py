"""An exercise of the course: functions to write, cases to test them with, and the mistakes that are recognized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Mistakes = frozenset[str]
NONE: Mistakes = frozenset()


class Case(NamedTuple):
    """One call of a student's function."""

    name: str
    """A description of what is tested."""
    function: str
    arguments: tuple[Any, ...]
    shows_values: bool = True
    """Whether a difference is shown with the expected value."""
    error_hint: str = ""
    """Shown if the function raises an error in this case."""


class Exercise(NamedTuple):
    """A file that students complete."""

    name: str
    """The name of the file, without ``.py``."""
    chapter: int
    title: str
    stub: str
    """The file as students get it."""
    solutions: Mapping[str, Callable[..., Any]]
    """For each function: a reference that takes its arguments and the keyword ``mistakes``, those to make."""
    cases: Callable[[], list[Case]]
    mistakes: Mapping[str, str]
    """Hints by the names of mistakes, the likeliest first."""

    @property
    def file_name(self) -> str:
        return f"{self.name}.py"

    def expected(self, case: Case, mistakes: Mistakes = NONE) -> Any:
        """The value of the reference, with these mistakes."""
        return self.solutions[case.function](*case.arguments, mistakes=mistakes)
