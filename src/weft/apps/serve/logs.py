"""Error logging: the traceback and, if enabled, the message."""

from __future__ import annotations

import sys
import traceback


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def log_error(error: BaseException, *, texts: bool) -> None:
    """The traceback on stderr; the message of the error, which may quote a text, only if ``texts``."""
    lines = traceback.format_tb(error.__traceback__)
    message = f": {one_line(error)}" if texts else ""
    sys.stderr.write(f"weft: error in a request: {type(error).__name__}{message}\n{''.join(lines)}")
    sys.stderr.flush()
