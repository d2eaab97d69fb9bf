"""Checks before every request: head, Host, Origin, key, size and time of the body; and the headers of every response.

A page of another site cannot use a service on this machine: its requests name that site as their origin, or, after DNS
rebinding, as their host. A key is sent as ``Authorization: Bearer KEY``, which browsers do not add automatically.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from weft.apps.serve.active_requests import ActiveRequest, ActiveRequests
from weft.apps.serve.errors import ServiceError, log_error
from weft.apps.serve.keys import Keys
from weft.apps.serve.metrics import LATENCY, REQUESTS, Metrics
from weft.apps.serve.settings import LOCAL_HOSTS, ServeSettings
from weft.runtime.processes import to_json

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refusal = Callable[[str, bytes, str], ServiceError | None]

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
KEYLESS = ("/", "/docs", "/health", "/ready", "/api/service", "/api/openapi.json", "/languages", "/frontend/settings")
"""Paths that need no key, like the files of the page; LibreTranslate's clients request languages without one."""
PROXY_HEADERS = ("forwarded", "via", "x-real-ip")
STATUS_PATHS = ("/health", "/ready", "/metrics")
"""Paths that are answered whatever the load."""
LINGER_SECONDS = 2.0
"""Time in which a client that still sends may read why it was refused; what it sends is discarded."""
MAX_HEADERS = 100
"""Header fields of a request."""
log = logging.getLogger("weft.apps.serve")


class Guard:
    """The outermost layer of the application."""

    def __init__(
        self,
        app: App,
        settings: ServeSettings,
        keys: Keys | None,
        metrics: Metrics,
        refusal: Refusal | None = None,
        *,
        body_bytes: float = math.inf,
    ) -> None:
        """``refusal``: why a request to a path with a body is refused before it is read; None if it is not.

        ``body_bytes``: bytes of the bodies of all requests at a time.
        """
        self.app = app
        self.active = ActiveRequests(settings.max_connections, body_bytes)
        self.refusal = refusal
        self.settings = settings
        self.keys = keys
        self.metrics = metrics
        self.local = settings.host in LOCAL_HOSTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, client = time.monotonic(), 500, ""
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        extra = [*HEADERS, *self._cors(origin)]

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 429:
                    await asyncio.sleep(self.active.delay(client))
                message["headers"] = [*message.get("headers", ()), *extra]
            elif is_head:
                return
            await send(message)
            if is_head:  # the response ends here, even where GET would open a stream
                await send({"type": "http.response.body", "body": b""})

        try:
            self._check_head(scope)
            self._check_host(headers.get("host", ""))
            self._check_origin(origin, headers.get("host", ""))
            if scope["method"] == "OPTIONS" and origin is not None and "access-control-request-method" in headers:
                return await _answer(send_with_headers, 204, b"")
            state = scope.setdefault("state", {})
            client = state["client"] = self._client(scope, headers)
            if own_path(scope) in STATUS_PATHS:
                return await self.app(scope, _replay(b"", receive), send_with_headers)
            with self.active.enter(client) as active:
                try:
                    body = await self._body(receive, headers, active)
                    refused = None if self.refusal is None else self.refusal(own_path(scope), body, client)
                    if refused is None:
                        return await self.app(scope, _replay(body, receive), send_with_headers)
                except ServiceError as error:
                    refused = error
                await _answer_error(send_with_headers, refused)  # the request counts until then
        except ServiceError as error:
            await _answer_error(send_with_headers, error)
        except Exception as error:  # the application has answered; it only remains to log the error
            log_error(error, texts=self.settings.log == "texts")
        finally:
            seconds = time.monotonic() - start
            path = path_label(scope)
            self.metrics.add(REQUESTS, path=path, status=str(status))
            if not path.endswith("/stream"):
                self.metrics.observe(LATENCY, seconds, path=path)
            log.info("%s %s %d %.0f ms", scope["method"], path, status, 1000 * seconds)

    def _check_head(self, scope: Scope) -> None:
        """Check the size of the head, the number of its fields, and that it has one Host at most."""
        fields = scope["headers"]
        size = sum(len(name) + len(value) + 4 for name, value in fields)
        size += len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        if size > self.settings.max_head:
            raise ServiceError(431, head_too_large(self.settings.max_head))
        if len(fields) > MAX_HEADERS:
            raise ServiceError(
                431, f"the request has {len(fields):,} header fields; at most {MAX_HEADERS} are accepted"
            )
        if sum(name.lower() == b"host" for name, _ in fields) > 1:
            raise ServiceError(400, "the request has more than one Host header; send one")

    def _check_host(self, host: str) -> None:
        """Behind a local address only local names, and those that are set."""
        name = host_name(host)
        if self.settings.hosts:
            allowed = name in {*self.settings.hosts, *LOCAL_HOSTS}
        else:
            allowed = not self.local or name in LOCAL_HOSTS
        if not allowed:
            raise ServiceError(403, "the Host header names another machine; add its name to the setting hosts")

    def _check_origin(self, origin: str | None, host: str) -> None:
        if origin is None or origin in self.settings.origins:
            return
        scheme, separator, own = origin.partition("://")
        if not separator or scheme.lower() not in ("http", "https") or own.lower() != host.lower() or not host:
            raise ServiceError(403, "the request comes from another web page; add its origin to the setting origins")

    def _cors(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        """For the pages of other origins that are allowed; never with credentials."""
        if origin is None or origin not in self.settings.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"vary", b"Origin"),
        ]

    def _client(self, scope: Scope, headers: dict[str, str]) -> str:
        """The client of a request, for fairness: the hash of a key, or an address."""
        address = scope["client"][0] if scope.get("client") else ""
        if self.keys is None:
            return address
        path = own_path(scope)
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        key = credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if key:
            client = self.keys.client(key)
            if client is None:
                raise ServiceError(401, "the key is not known")
            return client
        if path not in KEYLESS and not path.startswith("/page/"):
            if path in ("/translate", "/detect"):  # LibreTranslate's clients send it in the body
                scope["state"]["needs_key"] = True
            else:
                raise ServiceError(401, "a key is needed; send it as Authorization: Bearer KEY")
        return address

    async def _body(self, receive: Receive, headers: dict[str, str], active: ActiveRequest) -> bytes:
        """The whole body, within the limits of size and time."""
        limit = self.settings.max_body
        too_large = ServiceError(413, f"the request has more than {limit:,} bytes, the limit")
        if headers.get("content-length", "").isdigit() and int(headers["content-length"]) > limit:
            if "expect" not in headers:  # else the client waits before it sends the body
                await _discard(receive)
            raise too_large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self.settings.body_timeout):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ServiceError(400, "the request ended before its body did")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        await _discard(receive)
                        raise too_large
                    active.receive(len(parts[-1]))
                    more = message.get("more_body", False)
        except TimeoutError:
            seconds = self.settings.body_timeout
            raise ServiceError(408, f"the request did not arrive within {seconds:g} seconds") from None
        return b"".join(parts)


async def _discard(receive: Receive) -> None:
    """Read what is left of a body that is refused, for a while: closed at once, a connection may lose the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass


def head_too_large(limit: int) -> str:
    return f"the head of the request has more than {limit:,} bytes, the limit"


def is_forwarded(names: Iterable[str]) -> bool:
    """Whether one of these header fields is added by a proxy, whose address is not that of the client."""
    return any(name.lower().startswith("x-forwarded") or name.lower() in PROXY_HEADERS for name in names)


def host_name(host: str) -> str:
    """The name in a Host header, without the port; empty if it has none."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""
    except ValueError:  # half of an IPv6 address
        return ""


def own_path(scope: Scope) -> str:
    """The path of a request below the one at which the application is mounted."""
    path, prefix = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
    return path[len(prefix) :] or "/" if path == prefix or path.startswith(f"{prefix}/") else path


def path_label(scope: Scope) -> str:
    """The path without what is particular to a request, for metrics and logs."""
    route = scope.get("route")
    if route is not None and getattr(route, "path", None):
        return str(route.path)
    path = own_path(scope)
    if path == "/api/translate":  # refused before it had a route
        return path
    return "/page" if path.startswith("/page/") else "other"


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then what comes after it: that the client has left."""
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replayed


async def _answer(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    named: Iterable[tuple[str, str]] = {"Content-Type": "application/json", **(headers or {})}.items()
    encoded = [(name.encode(), value.encode()) for name, value in named]
    encoded.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def _answer_error(send: Send, error: ServiceError) -> None:
    await _answer(send, error.status, to_json({"error": error.message}), error.headers)
