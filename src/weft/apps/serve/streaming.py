"""Server-sent events: a search step by step."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.jobs import client_of, queue_of, translation_payload
from weft.apps.serve.metrics import FIRST_TOKEN
from weft.apps.serve.models import ServedModel
from weft.apps.serve.queueing import Job
from weft.apps.serve.schemas import PROBLEMS, TranslateRequest
from weft.apps.serve.uploads import UploadRoute
from weft.runtime.processes import to_json

PROGRESS_SECONDS = 1.0
MAX_UNREAD = 8 << 20
"""Bytes of events that may wait for a slow client."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "server-sent events"}
}
router = APIRouter(prefix="/api", responses=PROBLEMS, route_class=UploadRoute)


def event(name: str, data: bytes) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    return b"".join((b"event: ", name.encode(), b"\ndata: ", data, b"\n\n"))


class OpenStreams:
    """Limits the streams whose searches run or wait, those of each client, and the bytes that clients have not read.

    A stream whose search is over holds no place: its last events wait for a client that may read them slowly, for as
    long as connections.py allows.
    """

    def __init__(self, limit: int, *, client_limit: int | None = None, max_unread: float = math.inf) -> None:
        self.limit = limit
        self.client_limit = limit if client_limit is None else client_limit
        self.max_unread = max_unread
        self.by_client: Counter[str] = Counter()
        self.unread_bytes = 0

    @property
    def count(self) -> int:
        return self.by_client.total()

    def enter(self, client: str) -> Callable[[], None]:
        """Take a place; a function that frees it, once. 429 if there is none."""
        if self.by_client[client] >= self.client_limit:
            message = f"{self.client_limit} streams of this client are already open; close one, or try again later"
            raise ServiceError(429, message, retry_after=5.0)
        if self.count >= self.limit:
            raise ServiceError(429, f"{self.limit} streams are already open; try again later", retry_after=5.0)
        self.by_client[client] += 1
        entered = [client]

        def leave() -> None:
            if entered:
                self.by_client[entered.pop()] -= 1
                self.by_client += Counter()  # drops zeros

        return leave


class EventResponse(StreamingResponse):
    """Sends events; however it ends, even before the first event, its place among the open streams becomes free."""

    def __init__(self, events: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=HEADERS)
        self.events = events
        self.leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.leave()
            await self.events.aclose()


@router.post("/translate/stream", response_class=StreamingResponse, responses=EVENTS)
async def translate_stream(request: Request, body: TranslateRequest) -> StreamingResponse:
    """Translate one text and send every step of the search: start, step, …, done."""
    if len(body.texts) != 1:
        raise ServiceError(422, f"text: one text is streamed at a time; {len(body.texts)} were given")
    if not body.texts[0].strip():
        raise ServiceError(422, "text: it is empty; there is nothing to search for")
    model, payload = await translation_payload(request, body)
    streams: OpenStreams = request.app.state.streams
    stream = SearchStream(model, {**payload, "texts": body.texts}, streams, client_of(request))
    return EventResponse(stream.events(), stream.leave)


class SearchStream:
    """One search whose steps are sent."""

    def __init__(self, model: ServedModel, payload: dict[str, object], streams: OpenStreams, client: str) -> None:
        self.model = model
        self.streams = streams
        self.leave = streams.enter(client)
        self.unread: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.unread_bytes = 0
        self.job = Job("stream", payload, client=client, on_event=self._receive)
        texts = payload.get("texts", ())
        assert isinstance(texts, list | tuple)
        self.queue = queue_of(model, self.job, texts)
        self.has_step = False

    def _receive(self, name: str, data: bytes) -> None:
        if name == "step" and not self.has_step:
            self.has_step = True
            seconds = time.monotonic() - self.job.arrived
            self.model.metrics.observe(FIRST_TOKEN, seconds, model_name=self.model.name)
        if name == "start":
            data = to_json({"model": self.model.name})[:-1] + b"," + data[1:]
        self._put(event(name, data))
        if self.unread_bytes > MAX_UNREAD or self.streams.unread_bytes > self.streams.max_unread:  # nobody reads
            self.model.abandon(self.job)
            self.unread.put_nowait(None)

    def _put(self, part: bytes) -> None:
        self._count(len(part))
        self.unread.put_nowait(part)

    def _count(self, size: int) -> None:
        self.unread_bytes += size
        self.streams.unread_bytes += size

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events until the last; if the client leaves, the search ends."""
        work = asyncio.create_task(self._run())
        start = time.monotonic()
        try:
            while True:
                try:
                    part = await asyncio.wait_for(self.unread.get(), PROGRESS_SECONDS)
                except TimeoutError:
                    part = event("progress", to_json({"seconds": round(time.monotonic() - start, 1)}))
                    self._count(len(part))
                if part is None:
                    return
                self._count(-len(part))
                yield part
        finally:
            self._count(-self.unread_bytes)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self.model.submit(self.job, queue=self.queue)
        except ServiceError as error:
            self._put(event("error", to_json({"error": error.message})))
        finally:
            self.leave()
        self.unread.put_nowait(None)
