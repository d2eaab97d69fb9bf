"""Programming exercises of the course (docs/course): stub files, hidden tests, and hints.

    weft course list          every exercise with its chapter
    weft course start 6       writes the stub files of a chapter
    weft course check FILE    runs hidden tests; a known mistake gets its hint

In Python:

    from weft.apps.course import check
    result = check(path)
    result.passed, result.hints

    exercise.py   an exercise: cases, a reference solution, and its known mistakes
    judging.py    compares a student's functions with the reference; finds the mistakes that explain their results
    values.py     comparison of tensors, lists and numbers
    student.py    the child process that imports a student's file
    checking.py   starts the child, limits its time, and collects the verdict
    stubs.py      writes stub files
    report.py     the verdict as text

Each exercise has a file in exercises/. A reference takes the names of mistakes:
``attention(Q, K, V, mistakes={"axis"})`` returns what a solution with the softmax along the wrong axis returns. A
student's results are explained by the smallest set of mistakes that reproduces all of them.
"""

from __future__ import annotations

from weft.apps.course.checking import CheckResult, check
from weft.apps.course.exercises import EXERCISES, find_exercise
from weft.apps.course.stubs import start

__all__ = ["EXERCISES", "CheckResult", "check", "find_exercise", "start"]
