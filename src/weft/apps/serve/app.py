"""`create_app`: the ASGI application of a service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from weft import __version__
from weft.apps.serve import api_page, inspection, libretranslate, page, routes, streaming, training
from weft.apps.serve.documents import Turns
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.jobs import ClientLeftError
from weft.apps.serve.keys import Keys
from weft.apps.serve.memory import SERVICE_SHARE
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.models import Models
from weft.apps.serve.naming import Run, check_run, name_runs
from weft.apps.serve.security import Guard
from weft.apps.serve.settings import ServeSettings
from weft.errors import DataError
from weft.runtime.processes import to_json

Runs = Path | str | Sequence[Path | str] | Mapping[str, Path | str | Sequence[Path | str]]


def create_app(runs: Runs, settings: ServeSettings | None = None, *, key_file: Path | str | None = None) -> Service:
    """The application for runs, named after their folders or as given; to be run by any ASGI server, or mounted.

    A run is a folder, or RUN:ADAPTER for a run with one of its adapters. Several under one name are an ensemble:
    ``{"both": ["runs/a", "runs/b"]}``.

    Worker processes start with the application, or with the first request; `Service.stop` ends them.
    """
    settings = settings or ServeSettings()
    if isinstance(runs, Mapping):
        named: dict[str, Run] = {
            name: Path(run) if isinstance(run, str | Path) else tuple(map(Path, run)) for name, run in runs.items()
        }
    else:
        named = name_runs([runs] if isinstance(runs, str | Path) else runs)
    if not named:
        raise DataError("serve: no runs were given; expected at least one run folder")
    for name, run in named.items():
        if not name or "/" in name or not name.isprintable():
            raise DataError(f"serve: {name!r} cannot be the name of a run: it is part of addresses; leave out slashes")
        check_run(name, run)
    keys = None if key_file is None else Keys.read(Path(key_file))
    metrics = Metrics()
    models = Models(named, settings, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        models.start()
        yield
        await models.stop()

    app = FastAPI(
        title="weft",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.settings, app.state.models, app.state.metrics, app.state.accepted_keys = settings, models, metrics, keys
    app.state.streams = streaming.OpenStreams(
        settings.max_streams,
        client_limit=settings.max_client_streams,
        max_unread=models.memory * SERVICE_SHARE / 2,
    )
    app.state.turns = Turns()
    for part in (routes, streaming, inspection, training, libretranslate, page, api_page):
        app.include_router(part.router)
    _add_status(app)
    _add_error_answers(app)
    body_bytes = models.memory * SERVICE_SHARE / 2
    return Service(app, models, Guard(app, settings, keys, metrics, models.refusal, body_bytes=body_bytes))


class Service:
    """The application with its models."""

    def __init__(self, app: FastAPI, models: Models, guard: Guard) -> None:
        self.app = app
        self.models = models
        self.guard = guard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.guard(scope, receive, send)

    async def stop(self) -> None:
        """End the worker processes."""
        await self.models.stop()


def _add_status(app: FastAPI) -> None:
    """/health, /ready and /metrics."""

    @app.get("/health")
    async def health(request: Request) -> dict[str, Any]:
        """Whether the process answers, and which models cannot be loaded."""
        served: Models = request.app.state.models
        problems = {model.name: model.problem for model in served.by_name.values() if model.state == "failed"}
        return {"status": "degraded", "problems": problems} if problems else {"status": "ok"}

    @app.get("/ready", responses={503: {"description": "a model is being loaded, or the service is ending"}})
    async def ready(request: Request) -> Response:
        """Whether all models are loaded, and the service is not ending."""
        models: Models = request.app.state.models
        models.start()
        status = {model.name: model.state for model in models.by_name.values()}
        problems = {model.name: model.problem for model in models.by_name.values() if model.problem}
        content = {"ready": models.ready, "draining": models.draining, "models": status, "problems": problems}
        body = to_json(content)
        return routes.json_response(body, 200 if models.ready else 503)

    @app.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """Counters and histograms, for Prometheus."""
        return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_error_answers(app: FastAPI) -> None:
    """Answer every error with a status and one sentence."""

    def answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
        body = to_json({"error": message.encode("utf-8", "replace").decode("utf-8")})
        return Response(body, status_code=status, media_type="application/json", headers=dict(headers or {}))

    @app.exception_handler(ServiceError)
    async def service_error(request: Request, error: ServiceError) -> Response:
        return answer(error.status, error.message, error.headers)

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))[:100]
        message = " ".join(str(first["msg"]).split())
        if first["type"] == "model_attributes_type" and "json" not in request.headers.get("content-type", ""):
            return answer(415, "send JSON, with the header Content-Type: application/json")
        status = 400 if first["type"] == "json_invalid" else 422
        return answer(status, f"{where}: {message}" if where and status == 422 else message)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        messages = {404: "not found", 405: f"{request.method} is not allowed here"}
        return answer(error.status_code, messages.get(error.status_code, str(error.detail)), error.headers)

    @app.exception_handler(ClientLeftError)
    async def client_left(request: Request, error: ClientLeftError) -> Response:
        return answer(499, "the client has left")

    @app.exception_handler(Exception)
    async def internal_error(request: Request, error: Exception) -> Response:
        return answer(500, "an internal error; the service has logged it")
