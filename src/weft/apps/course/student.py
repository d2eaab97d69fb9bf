"""The child process that imports a student's file and runs the cases of an exercise.

`weft.apps.course.checking` starts it:

    python -m weft.apps.course.student FILE EXERCISE SECONDS

Messages to the parent, one JSON object each: ``{"ready": true}`` before the student's code begins, a verdict for each
case, and at the end the hints. What the student's code prints goes to stderr.
"""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from weft.apps.course.exercises import find_exercise
from weft.apps.course.judging import TimeLimitExceeded, Verdict, error_line, judge
from weft.runtime.processes import end_with_parent, message_pipes, write_message


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in the code inside after this time, where the system has interval timers."""
    if not hasattr(signal, "setitimer"):
        yield  # the parent ends this process somewhat later, without a line number
        return

    def stop(number: int, frame: Any) -> NoReturn:
        raise TimeLimitExceeded(f"{seconds:g} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def load_functions(path: Path) -> dict[str, Any]:
    """The names that a file defines. It is not run as a program: code below ``if __name__ == "__main__"`` is left out."""
    sys.path.insert(0, str(path.absolute().parent))
    return runpy.run_path(str(path), run_name="student")


def limited(function: Any, seconds: float) -> Any:
    """The function with the time limit, if it is one."""
    if not callable(function):
        return function

    def call(*arguments: Any) -> Any:
        with time_limit(seconds):
            return function(*arguments)

    return call


def main() -> None:
    path, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    end_with_parent(os.getppid())
    _, results = message_pipes()
    exercise = find_exercise(name)
    cases = exercise.cases()  # imports torch, if the exercise needs it: before the time begins
    write_message(results, {"ready": True})

    def report(verdict: Verdict) -> None:
        write_message(results, {"verdict": verdict})

    try:
        with time_limit(seconds):
            namespace = load_functions(path)
    except (Exception, TimeLimitExceeded, SystemExit) as error:
        write_message(results, {"broken": error_line(error, path.name)})
        return
    functions = {case.function: limited(namespace.get(case.function), seconds) for case in cases}
    judgment = judge(exercise._replace(name=path.stem), functions, report)
    write_message(results, {"hints": judgment.hints})


if __name__ == "__main__":
    builtins.input = lambda prompt="": ""  # standard input is closed
    main()
