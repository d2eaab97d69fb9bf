"""Files sent to the API as multipart/form-data, as a form or `curl -F file=@picture.png` sends them.

A request with files becomes the same request as JSON: each file is a data URL, the files together are `text`, and the
other fields are those of the JSON body (objects and lists as JSON). So limits, queues and answers are the same.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Coroutine
from email.message import Message
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from weft.apps.serve.errors import ServiceError
from weft.runtime.processes import to_json

MULTIPART = "multipart/form-data"
MAX_PARTS = 1_000
MAX_PART_HEAD = 2_000
"""Bytes of the header fields of a part."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class UploadRoute(APIRoute):
    """A route that also accepts its JSON body as multipart/form-data."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            content_type = request.headers.get("content-type", "")
            if request.method == "POST" and content_type.lower().startswith(MULTIPART):
                request = _with_json(request, to_json(body_of_form(content_type, await request.body())))
            return await handler(request)

        return handle


def body_of_form(content_type: str, content: bytes) -> dict[str, Any]:
    """The JSON body that a form stands for."""
    body: dict[str, Any] = {}
    files: list[str] = []
    for name, is_file, value in form_fields(content_type, content):
        if is_file:
            files.append(f"data:application/octet-stream;base64,{b64encode(value).decode('ascii')}")
        elif name in body:
            raise ServiceError(422, f"{name[:60]}: given twice; send it once")
        else:
            body[name] = _value_of(name, value)
    if files and "text" in body:
        raise ServiceError(422, "text: given beside files; send either")
    if files:
        body["text"] = files[0] if len(files) == 1 else files
    return body


def form_fields(content_type: str, content: bytes) -> list[tuple[str, bool, bytes]]:
    """The fields of a form: name, whether it is a file, content."""
    boundary = _parameter(content_type, "boundary")
    if not boundary or len(boundary) > 200 or not boundary.isascii():
        raise ServiceError(400, "multipart/form-data without a boundary")
    parts = (b"\r\n" + content).split(b"\r\n--" + boundary.encode("ascii"))
    if len(parts) < 2 or parts[-1][:2] != b"--":
        raise ServiceError(400, "a damaged form: it has no end")
    if len(parts) > MAX_PARTS + 2:
        raise ServiceError(413, f"a form of {len(parts) - 2:,} parts; at most {MAX_PARTS:,} are accepted")
    return [_field(part) for part in parts[1:-1]]


def _field(part: bytes) -> tuple[str, bool, bytes]:
    head, separator, value = part.lstrip(b" \t").removeprefix(b"\r\n").partition(b"\r\n\r\n")
    if not separator or len(head) > MAX_PART_HEAD:
        raise ServiceError(400, "a damaged form: a part without a head")
    match = re.search(rb"^content-disposition:[ \t]*(.*)$", head, re.IGNORECASE | re.MULTILINE)
    disposition = match[1].strip().decode("utf-8", "replace") if match else ""
    name = _parameter(disposition, "name")
    if not name:
        raise ServiceError(400, "a damaged form: a part without a name")
    return name, _parameter(disposition, "filename") is not None, value


def _parameter(header: str, name: str) -> str | None:
    """A parameter of a header field, such as the boundary of a content type."""
    message = Message()
    message["content-type"] = " ".join(header.split())
    value = message.get_param(name)
    if isinstance(value, tuple):  # RFC 2231
        value = value[2]
    return value


def _value_of(name: str, value: bytes) -> Any:
    """Objects and lists are JSON, everything else is text, of which the schema makes numbers."""
    try:
        text = value.decode("utf-8")
        return json.loads(text) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        raise ServiceError(422, f"{name[:60]}: not text in UTF-8, or damaged JSON") from None


def _with_json(request: Request, body: bytes) -> Request:
    """The request with another body."""
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    receive, sent = request.receive, False

    async def replayed() -> Any:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}, replayed)
