"""LibreTranslate's API, so that its clients work unchanged: /translate, /languages, /detect, /frontend/settings.

`weft.apps.serve.languages` knows the languages of a run. Texts are split into sentences, and HTML too: tags are put to
the words that they belong to (`weft.apps.serve.documents`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weft.apps.serve.documents import documents_of, translate_documents
from weft.apps.serve.errors import ModelUnavailableError, ServiceError
from weft.apps.serve.jobs import loaded_model, models_of, search_of, settings_of
from weft.apps.serve.languages import Direction, default, direction, names
from weft.apps.serve.limits import check_n_best, first_problem
from weft.apps.serve.models import ServedModel
from weft.apps.serve.schemas import PROBLEMS, ModelRequest
from weft.apps.serve.uploads import form_fields

router = APIRouter(responses=PROBLEMS)


class DetectRequest(BaseModel):
    """A request of LibreTranslate's API; fields that it does not know are ignored there, and so here."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str]
    api_key: str | None = None


class LibreRequest(DetectRequest):
    """Texts to translate."""

    source: str = "auto"
    target: str
    format: str = "text"
    alternatives: Annotated[int, Field(ge=0, le=100)] = 0


Body = TypeVar("Body", bound=DetectRequest)


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The description of a body that may be JSON or a form."""
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    content = {kind: {"schema": model.model_json_schema()} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


@router.get("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages that are translated from, and into which others."""
    targets: dict[str, dict[str, None]] = {}
    for model in models_of(request).by_name.values():
        several = any(model.info.get("languages", {}).values())
        for source in names(model, "source"):
            into = (target for target in names(model, "target") if not several or target != source)
            targets.setdefault(source, {}).update(dict.fromkeys(into))
    return [{"code": source, "name": source, "targets": list(into)} for source, into in targets.items()]


@router.post("/translate", openapi_extra=body_of(LibreRequest))
async def translate_libre(request: Request) -> dict[str, Any]:
    """Translate a text or several."""
    body = await read_body(request, LibreRequest)
    check_key(request, body.api_key)
    settings = settings_of(request)
    texts = [body.q] if isinstance(body.q, str) else body.q
    model, way = await find_model(request, body.source, body.target)
    if body.format not in ("text", "html"):
        raise ServiceError(400, f"format: {body.format[:40]!r} is not known; use text or html")
    documents = [file.document for file in await documents_of(request, texts, body.format, "q")]
    search = search_of(model, ModelRequest(search=way.search), settings)
    if body.alternatives and search["kind"] == "greedy":
        search = {**search, "kind": "beam"}
    n_best = body.alternatives + 1
    check_n_best(n_best, search, settings)
    payload = {"search": search, "n_best": n_best, "prefix": "", "prefix_ids": [], "edits": None}
    payload |= {"attention": False, "trace": False}
    ranked = await translate_documents(request, model, payload, documents, "q")
    best = [outputs[0].text for outputs in ranked]
    others = [[output.text for output in outputs[1:]] for outputs in ranked]
    result: dict[str, Any] = {"translatedText": best if isinstance(body.q, list) else best[0]}
    if body.alternatives:
        result["alternatives"] = others if isinstance(body.q, list) else others[0]
    if body.source == "auto":
        detected = {"confidence": 0, "language": way.source}
        result["detectedLanguage"] = [detected] * len(texts) if isinstance(body.q, list) else detected
    return result


@router.post("/detect", openapi_extra=body_of(DetectRequest))
async def detect(request: Request) -> list[dict[str, Any]]:
    """The source languages; this service does not detect languages."""
    check_key(request, (await read_body(request, DetectRequest)).api_key)
    served = models_of(request).by_name.values()
    sources = dict.fromkeys(default(model, "source") or names(model, "source")[0] for model in served)
    return [{"confidence": 0, "language": source} for source in sources]


@router.get("/frontend/settings")
async def frontend_settings(request: Request) -> dict[str, Any]:
    """Settings for LibreTranslate's own web page."""
    first = next(iter(models_of(request).by_name.values()))
    codes = [default(first, side) or names(first, side)[0] for side in ("source", "target")]
    source, target = ({"code": code, "name": code} for code in codes)
    needs_key = request.app.state.accepted_keys is not None
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": settings_of(request).max_characters,
        "language": {"source": source, "target": target},
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def read_body(request: Request, kind_of_body: type[Body]) -> Body:
    """JSON, or a form."""
    content, kind = await request.body(), request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if kind == "application/x-www-form-urlencoded":
            form = parse_qs(content.decode("utf-8"), keep_blank_values=True, max_num_fields=2 * 1000)
            values: Any = fields_of(form)
        elif kind == "multipart/form-data":
            values = form_values(content, request.headers["content-type"])
        elif kind in ("application/json", ""):
            values = json.loads(content)
        else:
            raise ServiceError(415, f"content type: {kind[:60]!r}; send application/json, or a form")
        if isinstance(values, dict) and isinstance(values.get("source"), str):
            values["source"] = values["source"] or "auto"
        return kind_of_body.model_validate(values)
    except ValidationError as error:
        raise ServiceError(400, first_problem(error)) from None
    except (ValueError, RecursionError):
        raise ServiceError(400, "the body is neither JSON nor a form in UTF-8") from None


def fields_of(form: dict[str, list[str]]) -> dict[str, Any]:
    """The values of the fields of a form: ``q`` may be given several times."""
    return {name: given if name == "q" and len(given) > 1 else given[-1] for name, given in form.items()}


def form_values(content: bytes, content_type: str) -> dict[str, Any]:
    """The text fields of a multipart form, which may have no files."""
    form: dict[str, list[str]] = {}
    for name, is_file, value in form_fields(content_type, content):
        if is_file:
            raise ServiceError(400, f"{name[:40]}: files are not translated; send their text as q")
        form.setdefault(name, []).append(value.decode("utf-8"))
    return fields_of(form)


def check_key(request: Request, key: str | None) -> None:
    """Check the key in the body, if one is needed and no header had it."""
    if getattr(request.state, "needs_key", False):
        client = request.app.state.accepted_keys.client(key) if key else None
        if client is None:
            raise (
                ServiceError(401, "a key is needed, as api_key")
                if not key
                else ServiceError(403, "the key is not known")
            )
        request.state.client = client


async def find_model(request: Request, source: str, target: str) -> tuple[ServedModel, Direction]:
    """The first model that translates between two languages, loaded."""
    served = models_of(request).by_name
    for name in served:
        if direction(served[name], source, target) is None and served[name].info:
            continue
        with suppress(ModelUnavailableError):  # unless no other model has these languages
            model = await loaded_model(request, name)
            if (way := direction(model, source, target)) is not None:
                return model, way
    for name, model in served.items():
        if direction(model, source, target) is not None:
            await loaded_model(request, name)  # raises
    pairs = ", ".join(described(model) for model in served.values())
    raise ServiceError(400, f"{source[:40]} to {target[:40]} is not supported; this service translates {pairs}")


def described(model: ServedModel) -> str:
    """The languages of a model in a few words."""
    sides = [names(model, side) for side in ("source", "target")]
    return " to ".join(side[0] if len(side) == 1 else f"{len(side)} languages (see /languages)" for side in sides)
