"""``--bad-lines``: how to handle lines that cannot be processed, and the exit code of a command that skipped some."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weft.errors import DataError, plural

EXIT_CODE = 3
"""Exit code of a command that finished, but skipped lines."""
SHOWN = 10
"""Skipped lines that are listed on stderr."""
POLICIES = ("error", "skip")

BadLines = Annotated[
    str,
    typer.Option(
        "--bad-lines",
        metavar="error|skip",
        help="Lines that are not UTF-8, too long for the model or without its columns: stop at the first, or write an "
        "empty line for each and exit with code 3.",
    ),
]


class BadLinePolicy:
    """Raises or counts the lines that cannot be processed."""

    def __init__(self, policy: str) -> None:
        if policy not in POLICIES:
            raise DataError(f"--bad-lines {policy}: use {' or '.join(POLICIES)}")
        self.skips = policy == "skip"
        self.skipped = 0

    def report(self, message: str) -> None:
        """A line cannot be processed; the message has its location."""
        if not self.skips:
            raise DataError(f"{message}; or skip such lines with --bad-lines skip")
        self.skipped += 1
        if self.skipped <= SHOWN:
            print(f"weft: skipped: {message}", file=sys.stderr)

    def finish(self, skipped: int | None = None) -> None:
        """Report how many lines were skipped, if any, and exit with code 3; ``skipped``: also those of earlier runs."""
        total = self.skipped if skipped is None else skipped
        if total:
            were = "was" if total == 1 else "were"
            print(f"weft: {plural(total, 'line')} {were} skipped; each is an empty line in the output", file=sys.stderr)
            raise typer.Exit(EXIT_CODE)
