"""Every error weft raises on purpose, and the category of its warnings.

    WeftError
    ├── RecipeError       a setting is unknown, of the wrong type, or contradicts another
    ├── DataError         a corpus cannot be read: file, line, what was found, what was expected
    │   ├── InputTooLongError   a text is longer than the model or the memory allows; shorter ones are fine
    │   └── ColumnCountError    a source does not have as many columns as the model reads
    ├── VocabularyError   a tokenizer cannot be learned, loaded or used
    ├── CheckpointError   a run folder is missing, damaged, or written by another version
    ├── TrainingError     training cannot continue (for example: the loss is not finite)
    ├── SearchError       a search does not support what was requested
    └── FolderLockedError another process is writing to the folder

A message is one line: where; what was given; what is allowed; the nearest match. A recipe with several errors has one
line for each. The command line prints the message on stderr and exits with code 2. A `WeftWarning` is printed there
too, after ``weft: warning:``, and the command continues.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class WeftError(Exception):
    """Root of the tree: catch this to catch every deliberate error."""


class RecipeError(WeftError):
    """A setting is unknown, of the wrong type, or contradicts another."""


class DataError(WeftError):
    """A corpus cannot be read."""


class InputTooLongError(DataError):
    """A text is longer than the model or the memory allows; shorter ones are fine."""


class ColumnCountError(DataError):
    """A source does not have as many columns as the model reads."""


class VocabularyError(WeftError):
    """A tokenizer cannot be learned, loaded or used."""


class CheckpointError(WeftError):
    """A run folder is missing, damaged, or written by another version."""


class TrainingError(WeftError):
    """Training cannot continue."""


class SearchError(WeftError):
    """A search does not support what was requested."""


class FolderLockedError(WeftError):
    """Another process is writing to the folder."""


class WeftWarning(UserWarning):
    """Something that the user should know, although the work continues: `warn`."""


def warn(message: str) -> None:
    """Issue a `WeftWarning` that names the line of the program that called weft."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "weft":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, WeftWarning, stacklevel=level)


def nearest(given: str, allowed: Iterable[str]) -> str:
    """The end of an "unknown name" message: a suggestion if one is near, else the names allowed."""
    names = list(allowed)
    close = difflib.get_close_matches(given, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}"


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether Python, or PyTorch on a CPU or a GPU, could not allocate memory; or whether that led to this error."""
    if error is None:
        return False
    is_of_torch = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    # a failed allocation may make the end of a CUDA graph's capture fail
    cause = error.__context__ if isinstance(error, RuntimeError) else error.__cause__
    return isinstance(error, MemoryError) or is_of_torch or is_out_of_memory(cause)


_on_command_line = ContextVar("on_command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """While this is open, messages name options as the command line does."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def option(name: str, value: object = None, *, flag: str | None = None) -> str:
    """The name of an option in a message: ``resume=True`` in Python, ``--resume`` on the command line.

    ``value``: the given or expected value, if any; ``flag``: the name on the command line, if it differs.
    """
    if not _on_command_line.get():
        return name if value is None else f"{name}={value!r}"
    flag = f"--{(flag or name).replace('_', '-')}"
    return flag if value is None or value is True else f"{flag} {value}"


def plural(count: int, noun: str) -> str:
    """A count and its noun in a message: ``1 pair``, ``2,000 pairs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


QUOTED_CHARACTERS = 40


def quote(text: str) -> str:
    """A text in a message: truncated, and on one line."""
    return repr(text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…")


def column_phrase(column: int | str) -> str:
    """The name of a column in messages."""
    return f"column {column!r}"
