"""`weft serve`: trained runs behind an HTTP API and a page.

The application
    app.py               `create_app`: the ASGI application
    server.py            the process around it: uvicorn and signals
    connections.py       limits of connections: their number, the size of request heads, timeouts
    active_requests.py   the requests in progress, by client
    memory.py            the memory of the service and its workers
    settings.py          addresses and limits
    security.py, keys.py the checks before every request; API keys
    metrics.py           Prometheus metrics
    naming.py            the runs that are served, and their names

What can be requested
    routes.py            models, settings, translations, scores
    streaming.py         a search step by step
    inspection.py        tokens, embeddings, positions
    training.py          the logs of runs in training
    libretranslate.py    LibreTranslate's API; languages.py: the languages of a model, by the names of its clients
    documents.py         texts of several sentences, and documents
    uploads.py           pictures, frames and sound as forms
    page.py              the page, whose files are in page/; api_page.py: /docs, a description of the API
    schemas.py, errors.py, limits.py     bodies of requests, error responses, what a request may ask for

From a request to its results
    jobs.py              a request becomes a job
    costs.py             what an operation costs, and the limits
    admission.py         which jobs are admitted, and which are refused
    queueing.py, scheduling.py    jobs wait in a fair queue, and are sent to a worker in batches
    models.py            the models, each with its worker process
    worker_process.py    the service's end of a worker

In the worker
    worker.py            loads a run and answers what it is sent
    operations.py        what it can do with its model
    walk.py              the numbers of one step; walk_recurrent.py, walk_transformer.py: stage by stage
    worker_limits.py     the costs of its operations, and the end of those that nobody waits for
    model_info.py, records.py, observation.py   a model, its results and the steps of a search as JSON
    doubts.py            the words of an output, with reasons to doubt them
    array_records.py     pictures with the cells that their outputs attend to, and formulas

The service itself imports no torch: whatever happens to a model happens in its worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.apps.serve.settings import ServeSettings

if TYPE_CHECKING:
    from weft.apps.serve.app import create_app

__all__ = ["ServeSettings", "create_app"]


def __getattr__(name: str) -> Any:
    """`create_app`, imported when it is used: it needs FastAPI."""
    if name == "create_app":
        from weft.apps.serve.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
