"""Error responses: a status, one sentence, and when to try again."""

from __future__ import annotations


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
