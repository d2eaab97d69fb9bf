"""From a request to a job: which model, checked settings, texts within the limits; and the wait for its results."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from fastapi import Request

from weft.apps.serve.costs import ModelShape, estimated_lengths, known_characters
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.limits import EXACT, check_n_best, check_texts, check_unicode, search_settings
from weft.apps.serve.models import Models, ServedModel
from weft.apps.serve.queueing import FIRST_SPEED, Job
from weft.apps.serve.schemas import ModelRequest, TranslateRequest
from weft.apps.serve.settings import ServeSettings
from weft.runtime.processes import to_json

Result = TypeVar("Result")
SHORT_KNOWN = 10_000
"""Characters of a glossary and a translation memory that are read beside short requests; longer ones take a while."""
LONG_BATCHES = 3
"""Times as long as a batch may take, beyond which an operation is a long one."""


class ClientLeftError(Exception):
    """The client has disconnected."""


def models_of(request: Request) -> Models:
    return request.app.state.models


def settings_of(request: Request) -> ServeSettings:
    return request.app.state.settings


def client_of(request: Request) -> str:
    return getattr(request.state, "client", "")


async def loaded_model(request: Request, name: str | None) -> ServedModel:
    """The model that a request names, once it can answer."""
    model = models_of(request).get(name)
    await while_connected(request, model.loaded())
    return model


async def translation_payload(request: Request, body: TranslateRequest) -> tuple[ServedModel, dict[str, Any]]:
    """The model and what its worker is sent, but for the texts."""
    settings = settings_of(request)
    check_texts(body.texts, settings, reads_arrays=True)
    check_texts([body.prefix], settings, "prefix")
    for name, given in (("trace", body.trace), ("prefix_ids", body.prefix_ids), ("edits", body.edits)):
        if given and len(body.texts) != 1:
            raise ServiceError(422, f"{name}: for one text at a time; {len(body.texts)} were given")
    if len(body.prefix_ids) > settings.max_output:
        limit = f"at most {settings.max_output:,} are accepted"
        raise ServiceError(422, f"prefix_ids: {len(body.prefix_ids):,} tokens; {limit}")
    if body.trace and body.glossary:
        raise ServiceError(422, "trace: a search with a glossary keeps no trace; leave one of them out")
    model = await loaded_model(request, body.model)
    check_texts(body.texts, settings, reads_arrays=model.reads_arrays)
    search = search_of(model, body, settings)
    check_n_best(body.n_best, search, settings)
    payload = {
        "search": search,
        "n_best": body.n_best,
        "attention": body.attention,
        "trace": body.trace,
        "prefix": body.prefix,
        "prefix_ids": body.prefix_ids,
        "edits": edits_of(body),
    }
    return model, payload | known_of(body, model)


def known_of(body: TranslateRequest, model: ServedModel) -> dict[str, str]:
    """The glossary and the translation memory of a request, if it has them; the worker reads them."""
    known = {name: value for name, value in (("glossary", body.glossary), ("memory", body.memory)) if value}
    for name, value in known.items():
        if not model.info["has_source"]:
            raise ServiceError(422, f"{name}: {model.name} continues prompts, which have no translations")
        check_unicode(value, name)
    return known


def search_of(model: ServedModel, body: ModelRequest, settings: ServeSettings) -> dict[str, Any]:
    """The settings of a search; a language model samples by default."""
    own = model.info["search"]
    if not model.info["has_source"]:
        own = {**own, "kind": "sample"}
    return search_settings(own, body.search, settings)


def edits_of(body: ModelRequest) -> dict[str, Any] | None:
    return None if body.edits is None else body.edits.model_dump()


async def translate(
    request: Request, model: ServedModel, payload: dict[str, Any], texts: Sequence[str], *, plain: bool = False
) -> list[bytes]:
    """The translation records of texts, each as JSON. ``plain``: whether the request holds nothing but a text."""
    if not texts:
        return []
    alone = bool(payload["edits"] or payload["prefix_ids"] or payload["trace"] or not model.info["has_source"])
    key = None if alone and len(texts) == 1 else blake2b(to_json(payload), digest_size=16).hexdigest()
    full = payload if key is not None else {**payload, "texts": list(texts)}
    job = Job("translate", full, rows=texts, batch_key=key, client=client_of(request))
    job.plain = plain
    return await while_connected(request, model.submit(job, queue=queue_of(model, job, texts)))


async def ask(request: Request, model: ServedModel, op: str, payload: dict[str, Any]) -> list[bytes]:
    """The answer of a worker to anything but a translation."""
    job = Job(op, payload, client=client_of(request))
    texts = [source + target for source, target in payload.get("pairs", ())] or payload.get("texts", ())
    return await while_connected(request, model.submit(job, queue=queue_of(model, job, texts)))


def queue_of(model: ServedModel, job: Job, texts: Sequence[str]) -> str:
    """The queue of a job, whose work is estimated: that of long operations for exact searches, and for a text that
    takes longer than a few batches."""
    if job.payload.get("search", {}).get("kind") in EXACT or known_characters(job.payload) > SHORT_KNOWN:
        return "long"
    if not texts or (costs := model.info.get("costs")) is None:
        return "batch"
    shape = ModelShape(**costs["shape"])
    search = job.payload.get("search", {})
    extra = min(costs["max_extra"], model.settings.max_output)

    def longest(source: int) -> int:
        return min(int(costs["max_ratio"] * source) + extra, model.settings.max_output)

    rates = model.schedulers["batch"].rates
    prefix = len(job.payload.get("prefix_ids") or ()) + int(
        len(job.payload.get("prefix") or "") * rates.tokens_per_character
    )
    lengths = [
        length._replace(target=max(length.target, prefix))
        for length in estimated_lengths(texts, rates.tokens_per_character, search, longest)
    ]
    if job.op in ("heads", "walk", "score"):
        work = sum(shape.operation(job.op, job.payload, [length]).multiplications for length in lengths)
    else:
        work = max(shape.operation(job.op, job.payload, [length]).multiplications for length in lengths)
    job.work = max(work, 1.0)
    # on a busy machine everything takes long: that does not make an operation a long one beside the others
    speed = max(rates.speed, FIRST_SPEED)
    return "long" if work > LONG_BATCHES * rates.batch_seconds * speed else "batch"


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, which is cancelled when the client leaves."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeftError
        return task.result()
    finally:
        for future in (task, watcher):
            if not future.done():
                future.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
