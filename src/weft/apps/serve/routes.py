"""/api: models, settings, translations, scores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from weft import __version__
from weft.apps.serve.documents import documents_of, record_of, translate_documents, written
from weft.apps.serve.errors import DeadlineError, ServiceError
from weft.apps.serve.jobs import (
    ask,
    client_of,
    edits_of,
    loaded_model,
    models_of,
    search_of,
    settings_of,
    translate,
    translation_payload,
)
from weft.apps.serve.limits import check_texts, describe_settings
from weft.apps.serve.models import PLAIN, ServedModel
from weft.apps.serve.schemas import (
    PROBLEMS,
    Heads,
    HeadsRequest,
    ScoreRequest,
    Scores,
    TranslateRequest,
    Translations,
    Walk,
    WalkRequest,
)
from weft.apps.serve.security import is_forwarded
from weft.apps.serve.uploads import UploadRoute
from weft.runtime.processes import to_json

router = APIRouter(prefix="/api", responses=PROBLEMS, route_class=UploadRoute)
SCORED_CHARACTERS, SCORED_PAIRS = 10_000, 64
"""The largest part of a request to score pairs that is computed at once."""


def json_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers={"Cache-Control": "no-store"})


def listed(model: str, name: str, records: list[bytes]) -> Response:
    """``{"model": …, name: [records]}``, of records that are JSON already."""
    head = to_json({"model": model})[:-1]
    return json_response(b"".join([head, b',"', name.encode(), b'":[', b",".join(records), b"]}"]))


@router.get("/service")
async def service(request: Request) -> dict[str, Any]:
    """Version and limits of this service; needs no key."""
    models, settings = models_of(request), settings_of(request)
    return {
        "version": __version__,
        "needs_key": request.app.state.accepted_keys is not None,
        "ready": models.ready,
        "limits": settings.limits(),
    }


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """The models that are served, and the limits of requests."""
    served = models_of(request)
    served.start()
    return {
        "models": [model.record() for model in served.by_name.values()],
        "limits": settings_of(request).limits(),
    }


@router.get("/settings")
async def search_settings(request: Request) -> dict[str, Any]:
    """The search settings: type, range, and the searches to which each applies."""
    return {"search": describe_settings(settings_of(request))}


@router.post("/translate", response_model=Translations)
async def translate_texts(request: Request, body: TranslateRequest) -> Response:
    """Translate texts, or continue prompts."""
    if body.format != "sentence":
        return await translate_formatted(request, body)
    model, payload = await translation_payload(request, body)
    plain = body.model_fields_set <= PLAIN and isinstance(body.text, str)
    records = await translate(request, model, payload, body.texts, plain=plain)
    return listed(model.name, "translations", records)


async def translate_formatted(request: Request, body: TranslateRequest) -> Response:
    """The translations of texts of several sentences, or of documents."""
    only_sentences = ("attention", "trace", "prefix", "prefix_ids", "edits")
    for name in (name for name in only_sentences if getattr(body, name)):
        raise ServiceError(422, f"{name}: for single sentences, not with format = {body.format!r}")
    if body.n_best != 1:
        raise ServiceError(422, f"n_best: {body.n_best}; a text with format = {body.format!r} has one output")
    files = await documents_of(request, body.texts, body.format, "text")
    model, payload = await translation_payload(request, body.model_copy(update={"text": ""}))
    if not model.info["has_source"]:
        raise ServiceError(422, f"format: {body.format!r}; {model.name} continues prompts, which are no documents")
    ranked = await translate_documents(request, model, payload, [file.document for file in files], "text")
    records = [
        to_json(record_of(text, outputs[0], await written(request, file, outputs[0])))
        for text, file, outputs in zip(body.texts, files, ranked, strict=True)
    ]
    return listed(model.name, "translations", records)


def score_parts(pairs: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The pairs in parts that take little time each: other clients have their turn after each of them."""
    part: list[tuple[str, str]] = []
    size = 0
    for pair in pairs:
        length = len(pair[0]) + len(pair[1])
        if part and (size + length > SCORED_CHARACTERS or len(part) == SCORED_PAIRS):
            yield part
            part, size = [], 0
        part.append(pair)
        size += length
    if part:
        yield part


@router.post("/score", response_model=Scores)
async def score(request: Request, body: ScoreRequest) -> Response:
    """log p(target | source) of pairs."""
    settings = settings_of(request)
    check_texts([source for source, _ in body.pairs], settings, "pairs", reads_arrays=True)
    check_texts([target for _, target in body.pairs], settings, "pairs")
    if body.edits and len(body.pairs) != 1:
        raise ServiceError(422, f"edits: for one pair at a time; {len(body.pairs)} were given")
    model = await loaded_model(request, body.model)
    check_texts([source for source, _ in body.pairs], settings, "pairs", reads_arrays=model.reads_arrays)
    if not body.pairs:
        return listed(model.name, "scores", [])
    scores: list[bytes] = []
    try:
        async with asyncio.timeout(settings.deadline):
            for pairs in score_parts(body.pairs):
                scores += await ask(request, model, "score", {"pairs": pairs, "edits": edits_of(body)})
    except TimeoutError:
        raise DeadlineError(settings.deadline) from None
    return listed(model.name, "scores", scores)


@router.post("/heads", response_model=Heads)
async def heads(request: Request, body: HeadsRequest) -> Response:
    """The attention weights of every head, for the model's own translation or a given target."""
    model, payload = await inspection_payload(request, body, "to attend to")
    payload["edits"] = edits_of(body)
    return await inspected(request, model, "heads", payload)


@router.post("/walk", response_model=Walk)
async def walk(request: Request, body: WalkRequest) -> Response:
    """The numbers of one step of the decoder, stage by stage, from the embedding to the softmax."""
    if body.edits:
        raise ServiceError(422, "edits: a walk shows the model as it is; leave them out")
    model, payload = await inspection_payload(request, body, "to walk through")
    return await inspected(
        request, model, "walk", {**payload, "step": body.step, "layer": body.layer, "head": body.head}
    )


async def inspection_payload(
    request: Request, body: HeadsRequest | WalkRequest, purpose: str
) -> tuple[ServedModel, dict[str, Any]]:
    """The model and what its worker is sent, for a text and its translation or a given target."""
    settings = settings_of(request)
    check_texts([body.text], settings, reads_arrays=True)
    check_texts([body.target or ""], settings, "target")
    if len(body.target_ids or ()) > settings.max_output:
        limit = f"at most {settings.max_output:,} are accepted"
        raise ServiceError(422, f"target_ids: {len(body.target_ids or ()):,} tokens; {limit}")
    if not body.text.strip():
        raise ServiceError(422, f"text: it is empty; there is nothing {purpose}")
    model = await loaded_model(request, body.model)
    check_texts([body.text], settings, reads_arrays=model.reads_arrays)
    search = search_of(model, body, settings)
    return model, {"texts": [body.text], "target": body.target, "target_ids": body.target_ids, "search": search}


async def inspected(request: Request, model: ServedModel, op: str, payload: dict[str, Any]) -> Response:
    """The answer of a worker, with the name of the model."""
    [result] = await ask(request, model, op, payload)
    return json_response(to_json({"model": model.name})[:-1] + b"," + result[1:])


@router.post("/models/{name}/reload")
async def reload(request: Request, name: str) -> dict[str, Any]:
    """Load what the run folder holds now. Without keys, only from this machine, and not through a proxy."""
    if request.app.state.accepted_keys is None:
        if settings_of(request).hosts or is_forwarded(request.headers):
            raise ServiceError(403, "without keys, no model can be reloaded through a proxy; start with --key-file")
        if client_of(request) not in ("127.0.0.1", "::1"):
            raise ServiceError(403, "without keys, a model can be reloaded from the service's own machine only")
    model = models_of(request).get(name)
    await model.reload()
    return model.record()
