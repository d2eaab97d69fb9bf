"""Error responses (a status, one sentence, and when to try again) and error logging."""

from __future__ import annotations

import sys
import traceback


class ServiceError(Exception):
    """Ends a request with this status and ``{"error": message}``."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}


class ModelUnavailableError(ServiceError):
    """A model that cannot answer now."""

    def __init__(self, message: str, *, retry_after: float | None = 5.0) -> None:
        super().__init__(503, message, retry_after=retry_after)


class BusyError(ServiceError):
    """Too many requests wait already."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(429, message, retry_after=retry_after)


class DeadlineError(ServiceError):
    """A request that took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(503, f"not done after {seconds:g} seconds; send fewer or shorter texts", retry_after=5.0)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def log_error(error: BaseException, *, texts: bool) -> None:
    """The traceback on stderr; the message of the error, which may quote a text, only if ``texts``."""
    lines = traceback.format_tb(error.__traceback__)
    message = f": {one_line(error)}" if texts else ""
    sys.stderr.write(f"weft: error in a request: {type(error).__name__}{message}\n{''.join(lines)}")
    sys.stderr.flush()
