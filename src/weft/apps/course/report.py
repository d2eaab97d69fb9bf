"""The verdict on a student's file as text."""

from __future__ import annotations

import textwrap

from weft.apps.course.checking import CheckResult
from weft.errors import plural

MARKS = {True: "✓", False: "✗"}
ASCII_MARKS = {True: "ok  ", False: "FAIL"}


def report_text(result: CheckResult, width: int = 80, *, ascii_only: bool = False) -> str:
    """Every case with its mark, what is wrong (where several cases in a row have one problem, once), and hints.

    attention.py: scaled dot-product attention (chapter 6)
      ✓ attention: one query, two keys, scores 112 and 96
      ✗ attention: three queries, five keys
        returned 0.3100 at [0][0][0], expected 0.4200
    hint: …
    1 of 5 cases passed
    """
    marks = ASCII_MARKS if ascii_only else MARKS
    exercise = result.exercise
    lines = [f"{result.path}: {exercise.title} (chapter {exercise.chapter})"]
    before = ""
    for verdict in result.verdicts:
        lines.append(f"  {marks[verdict.passed]} {verdict.case}")
        if verdict.problem and verdict.problem != before:
            indent = " " * (3 + len(marks[False]))
            lines += textwrap.wrap(verdict.problem, width, initial_indent=indent, subsequent_indent=indent)
        before = verdict.problem
    if result.broken:
        lines += textwrap.wrap(f"{result.path}: {result.broken}", width, subsequent_indent="  ")
    for hint in result.hints:
        lines += textwrap.wrap(f"hint: {hint}", width, subsequent_indent="      ")
    lines.append(_summary(result))
    return "\n".join(lines) + "\n"


def _summary(result: CheckResult) -> str:
    passed = sum(verdict.passed for verdict in result.verdicts)
    if result.passed:
        return f"all {plural(passed, 'case')} passed"
    if not result.verdicts:
        return "no case was run"
    return f"{passed} of {plural(len(result.verdicts), 'case')} passed"
