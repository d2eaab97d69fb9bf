"""/api/models/NAME: tokens, embeddings and positions of a model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.jobs import ask, loaded_model, settings_of
from weft.apps.serve.limits import check_texts
from weft.apps.serve.routes import json_response
from weft.apps.serve.schemas import PROBLEMS, Side

router = APIRouter(prefix="/api/models/{name}", responses=PROBLEMS)


@router.get("/tokens")
async def tokens(request: Request, name: str, text: str, side: Side = "source") -> Response:
    """A text as tokens."""
    check_texts([text], settings_of(request), reads_arrays=True)
    model = await loaded_model(request, name)
    return json_response((await ask(request, model, "tokens", {"text": text, "side": side}))[0])


@router.get("/neighbors")
async def neighbors(
    request: Request,
    name: str,
    token: Annotated[str | None, Query(max_length=200)] = None,
    id: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    side: Side = "source",
    count: Annotated[int, Query(ge=1, le=100)] = 12,
) -> Response:
    """The tokens whose embeddings are nearest to that of a token, by cosine similarity."""
    if token is None and id is None:
        raise ServiceError(422, "token: name a token, or give its id")
    check_texts([token or ""], settings_of(request), "token")
    model = await loaded_model(request, name)
    payload = {"token": token, "id": id, "side": side, "count": count}
    return json_response((await ask(request, model, "neighbors", payload))[0])


@router.get("/positions")
async def positions(request: Request, name: str, length: Annotated[int, Query(ge=1, le=1024)] = 64) -> Response:
    """The vectors that stand for the first positions."""
    model = await loaded_model(request, name)
    return json_response((await ask(request, model, "positions", {"length": length}))[0])
