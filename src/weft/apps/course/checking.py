"""Checks a student's file in a child process with a time limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any, NamedTuple

from weft.apps.course.exercise import Exercise
from weft.apps.course.exercises import EXERCISES, find_exercise
from weft.apps.course.judging import Verdict
from weft.errors import DataError
from weft.runtime.processes import child_environment, read_message

SECONDS = 10.0
"""Time that every case may take by default."""
START_SECONDS = 120.0
"""Time in which the child must have started; importing torch on a busy machine takes a while."""
GRACE_SECONDS = 5.0
"""Time beyond the limit after which the parent ends a child that did not end by itself."""


class CheckResult(NamedTuple):
    """The verdict on a file."""

    path: Path
    exercise: Exercise
    verdicts: list[Verdict]
    hints: list[str]
    broken: str = ""
    """Why the file could not be run, or the child ended; empty if all cases were run."""

    @property
    def passed(self) -> bool:
        return not self.broken and all(verdict.passed for verdict in self.verdicts)


def check(path: Path | str, exercise: str | None = None, *, seconds: float = SECONDS) -> CheckResult:
    """Run the hidden tests of an exercise on a student's file.

        check("attention.py").passed

    ``exercise``: by default the one of the file's name. ``seconds``: how long every case may take.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; weft course start writes the files of a chapter")
    if exercise is None and path.stem not in EXERCISES:
        names = ", ".join(EXERCISES)
        raise DataError(f"{path}: which exercise is it? give --exercise NAME, one of {names}")
    chosen = find_exercise(exercise or path.stem)
    return _collect(path, chosen, seconds)


def _collect(path: Path, exercise: Exercise, seconds: float) -> CheckResult:
    """Start the child and read its messages until it ends or takes too long."""
    command = [sys.executable, "-P", "-m", "weft.apps.course.student", str(path), exercise.name, str(seconds)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=child_environment(OMP_NUM_THREADS="1")
    ) as child:
        assert child.stdout is not None
        messages: Queue[dict[str, Any] | None] = Queue()
        Thread(target=_read, args=(child.stdout, messages), daemon=True).start()
        result = CheckResult(path, exercise, [], [])
        limit = START_SECONDS
        try:
            while (header := messages.get(timeout=limit)) is not None:
                limit = seconds + GRACE_SECONDS
                if "verdict" in header:
                    result.verdicts.append(Verdict(*header["verdict"]))
                if "broken" in header:
                    return result._replace(broken=header["broken"])
                if "hints" in header:
                    return result._replace(hints=header["hints"])
        except Empty:
            return result._replace(broken=f"no result within {seconds:g} seconds; is there a loop that never ends?")
        finally:
            child.kill()
    return result._replace(broken=f"Python ended with exit code {child.returncode} while the file was running")


def _read(stream: IO[bytes], messages: Queue[dict[str, Any] | None]) -> None:
    """Pass messages on to the queue; None at the end."""
    while (message := read_message(stream)) is not None:
        messages.put(message.header)
    messages.put(None)
