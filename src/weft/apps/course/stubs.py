"""Writes the stub files of a chapter; a file that exists is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.apps.course.exercise import Exercise
from weft.apps.course.exercises import EXERCISES, find_exercise
from weft.errors import DataError
from weft.files import save_text


class Stub(NamedTuple):
    """A stub file, and whether it was written or had been there."""

    path: Path
    exercise: Exercise
    written: bool


def start(chapter: int | str, folder: Path | str = ".") -> list[Stub]:
    """Write the stubs of a chapter, or of one exercise by its name, into a folder.

        start(6, "exercises")

    A file that exists is left as it is.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, expected a folder")
    exercises = _exercises(str(chapter))
    folder.mkdir(parents=True, exist_ok=True)
    stubs = []
    for exercise in exercises:
        path = folder / exercise.file_name
        written = not path.exists() and not path.is_symlink()
        if written:
            save_text(path, exercise.stub)
        stubs.append(Stub(path, exercise, written))
    return stubs


def _exercises(chapter: str) -> list[Exercise]:
    if not chapter.isdecimal():
        return [find_exercise(chapter)]
    exercises = [exercise for exercise in EXERCISES.values() if exercise.chapter == int(chapter)]
    if not exercises:
        chapters = sorted({exercise.chapter for exercise in EXERCISES.values()})
        raise DataError(f"chapter {chapter}: has no programming exercise; chapters {_joined(chapters)} have")
    return exercises


def _joined(numbers: list[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}"
