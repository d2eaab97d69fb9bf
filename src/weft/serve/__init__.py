"""`weft serve`: trained runs behind an HTTP API and a page.

    app.py               `create_app`: the ASGI application
    settings.py          addresses and limits
    models.py            the runs that are served, each by a worker process
    worker.py            the other end: loads a run and answers what it is sent
    admission.py         which requests are admitted, and which are refused
    queueing.py          the requests that wait for a model: fair, searched together
    routes.py, streaming.py, inspection.py, libretranslate.py, training.py     what can be requested
    languages.py         the languages of a model, by the names of LibreTranslate's clients
    security.py, keys.py, metrics.py

This process imports no torch: whatever happens to a model happens in its worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.serve.settings import ServeSettings

if TYPE_CHECKING:
    from weft.serve.app import create_app

__all__ = ["ServeSettings", "create_app"]


def __getattr__(name: str) -> Any:
    """`create_app`, imported when it is used: it needs FastAPI."""
    if name == "create_app":
        from weft.serve.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
