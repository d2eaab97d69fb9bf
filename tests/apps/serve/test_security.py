"""What stands before every request: Host, Origin, keys, size and time of the body; headers of every answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Mount

from weft.apps.serve.errors import BusyError, ServiceError
from weft.apps.serve.keys import Keys, new_key
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.security import CONTENT_SECURITY_POLICY, MAX_HEADERS, Guard, host_name, is_forwarded, own_path
from weft.apps.serve.settings import ServeSettings
from weft.runtime.processes import to_json


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body of the request and the client."""
    body = (await receive())["body"]
    content = to_json({"body": body.decode(), "client": scope["state"]["client"]})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": content})


def ask(guard: Any, method: str = "GET", path: str = "/api/models", **options: Any) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.request(method, path, **options)

    return asyncio.run(request())


def guard(keys: Keys | None = None, **settings: Any) -> Guard:
    return Guard(echo, ServeSettings(**settings), keys, Metrics())


def test_a_request_that_is_refused_before_it_is_read() -> None:
    """With its status and headers; it still needs a key, and the application does not see it."""
    seen = []

    def refusal(path: str, body: bytes, client: str) -> ServiceError | None:
        seen.append((path, body))
        return BusyError("busy", retry_after=3.0) if path == "/api/translate" else None

    refusing = Guard(echo, ServeSettings(), None, metrics := Metrics(), refusal)
    response = ask(refusing, "POST", "/api/translate", content=b"abc")
    assert (response.status_code, response.headers["retry-after"], response.json()) == (429, "3", {"error": "busy"})
    assert seen == [("/api/translate", b"abc")]
    assert ask(refusing, "POST", "/api/score", content=b"abc").status_code == 200
    assert 'path="/api/translate",status="429"' in metrics.text()
    keys = Keys({})
    assert ask(Guard(echo, ServeSettings(), keys, Metrics(), refusal), "POST", "/api/translate").status_code == 401


def test_headers_of_every_answer() -> None:
    for response in (ask(guard()), ask(guard(), headers={"Host": "evil.example"})):
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert "unsafe" not in CONTENT_SECURITY_POLICY and "http" not in CONTENT_SECURITY_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("host", "settings", "status"),
    [
        ("127.0.0.1:8000", {}, 200),
        ("localhost", {}, 200),
        ("[::1]:9", {}, 200),
        ("evil.example", {}, 403),
        ("127.0.0.1.evil.example", {}, 403),
        ("", {}, 403),
        ("a@127.0.0.1", {}, 403),
        ("[", {}, 403),
        ("[::1", {"host": "0.0.0.0", "hosts": ["weft.example"]}, 403),
        ("weft.example", {"hosts": ["weft.example"]}, 200),
        ("other.example", {"hosts": ["weft.example"]}, 403),
        ("any.example", {"host": "0.0.0.0"}, 200),
        ("any.example", {"host": "0.0.0.0", "hosts": ["weft.example"]}, 403),
    ],
)
def test_hosts(host: str, settings: dict[str, Any], status: int) -> None:
    """After DNS rebinding, a page of another site has this machine's address, but not its name."""
    assert ask(guard(**settings), headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "settings", "status"),
    [
        ("http://127.0.0.1:8000", {}, 200),
        ("http://127.0.0.1:9000", {}, 403),
        ("https://evil.example", {}, 403),
        ("null", {}, 403),
        ("http://[", {}, 403),
        ("ftp://127.0.0.1:8000", {}, 403),
        ("moz-extension://abc", {}, 403),
        ("moz-extension://abc", {"origins": ["moz-extension://abc"]}, 200),
    ],
)
def test_origins(origin: str, settings: dict[str, Any], status: int) -> None:
    response = ask(guard(**settings), "POST", headers={"Origin": origin}, content=b"{}")
    assert response.status_code == status
    allowed = response.headers.get("access-control-allow-origin")
    assert allowed == (origin if "origins" in settings else None)
    assert "access-control-allow-credentials" not in response.headers


def test_a_preflight_request() -> None:
    headers = {"Origin": "moz-extension://abc", "Access-Control-Request-Method": "POST"}
    assert ask(guard(origins=["moz-extension://abc"]), "OPTIONS", headers=headers).status_code == 204
    assert ask(guard(), "OPTIONS", headers=headers).status_code == 403


def test_keys(tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys", "somebody")
    keys = Keys.read(tmp_path / "keys")
    asked = guard(keys)
    assert ask(asked).status_code == 401
    assert ask(asked, headers={"Authorization": "Bearer wrong"}).json() == {"error": "the key is not known"}
    for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": f"bearer  {key}"}, {"X-API-Key": key}):
        client = ask(asked, headers=headers).json()["client"]
        assert client in keys.names and key not in client
    for path in ("/", "/page/weft.js", "/health", "/ready", "/api/service", "/languages"):
        assert ask(asked, path=path).status_code == 200
    for path in ("/api/translate", "/api/languages", "/metrics", "/mt/api/models", "/page", "/something"):
        assert ask(asked, path=path).status_code == 401


def test_keys_where_the_service_is_mounted(tmp_path: Path) -> None:
    """The path of a request then begins with that of the mount."""
    key = new_key(tmp_path / "keys", "somebody")
    mounted = Mount("/mt", app=guard(Keys.read(tmp_path / "keys")))
    for path in ("/mt/", "/mt/page/weft.js", "/mt/health"):
        assert ask(mounted, path=path).status_code == 200
    for path in ("/mt/api/models", "/mt/metrics", "/mt/api/models/a/reload"):
        assert ask(mounted, path=path).status_code == 401
        assert ask(mounted, path=path, headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert ask(mounted, "POST", path="/mt/translate").status_code == 200  # its key may be in the body


@pytest.mark.parametrize(
    ("root", "path", "own"),
    [("", "/a", "/a"), ("/mt", "/mt/a", "/a"), ("/mt", "/mt", "/"), ("/mt", "/mtx", "/mtx"), ("/mt/", "/mt/a", "/a")],
)
def test_paths_below_a_mount(root: str, path: str, own: str) -> None:
    assert own_path({"path": path, "root_path": root}) == own


def test_the_size_of_a_body() -> None:
    asked = guard(max_body=10)
    assert ask(asked, "POST", content=b"0123456789").json()["body"] == "0123456789"

    async def parts() -> Any:
        for _ in range(3):
            yield b"01234"

    for content in (b"01234567890", parts()):
        response = ask(asked, "POST", content=content)
        assert response.status_code == 413
        assert response.json() == {"error": "the request has more than 10 bytes, the limit"}


def test_a_body_that_does_not_arrive() -> None:
    async def call() -> list[Any]:
        sent: list[Any] = []
        messages = [{"type": "http.request", "body": b"a", "more_body": True}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()  # for ever

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/translate", "headers": [(b"host", b"localhost")]}
        await guard(body_timeout=0.05)(scope, receive, send)
        return sent

    start, body = asyncio.run(call())
    assert start["status"] == 408
    assert body["body"] == b'{"error":"the request did not arrive within 0.05 seconds"}'


def test_names_of_hosts() -> None:
    for host, name in (("a:1", "a"), ("[::1]:2", "::1"), ("A", "a"), ("", ""), ("x@y", ""), ("[", "")):
        assert host_name(host) == name


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_head_that_is_too_large(with_keys: bool) -> None:
    """It is refused before the key is checked."""
    asked = guard(Keys({}) if with_keys else None, max_head=1000)
    for path, headers in (("/health", {"X": "a" * 1000}), ("/health?" + "a" * 1000, {})):
        response = ask(asked, path=path, headers=headers)
        assert response.status_code == 431
        assert response.json() == {"error": "the head of the request has more than 1,000 bytes, the limit"}
    response = ask(guard(), path="/health", headers={f"X-{number}": "a" for number in range(MAX_HEADERS + 1)})
    assert response.status_code == 431 and "header fields; at most 100 are accepted" in response.json()["error"]


def test_two_hosts() -> None:
    response = ask(guard(), headers=[("Host", "127.0.0.1"), ("Host", "evil.example")])
    assert response.status_code == 400
    assert response.json() == {"error": "the request has more than one Host header; send one"}


def test_head_answers_like_get() -> None:
    """Without the body."""

    async def call(method: str) -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": "/health", "headers": [(b"host", b"localhost")]}
        await guard()(scope, receive, send)
        assert scope["method"] == method  # the server needs it, to send no body
        return sent

    got, head = asyncio.run(call("GET")), asyncio.run(call("HEAD"))
    assert head[0] == got[0] and head[1:] == [{"type": "http.response.body", "body": b""}]


def test_headers_of_a_proxy() -> None:
    for name in ("X-Forwarded-For", "x-forwarded-proto", "Forwarded", "Via", "X-Real-IP"):
        assert is_forwarded(["host", name])
    assert not is_forwarded(["host", "accept", "authorization"])


def test_what_is_left_of_a_large_body_is_read() -> None:
    """Else the connection is closed while the client sends, and the answer may be lost; but not if it waits."""

    async def call(headers: list[tuple[bytes, bytes]], parts: int) -> tuple[int, int]:
        received, statuses = [0], []

        async def receive() -> Any:
            received[0] += 1
            return {"type": "http.request", "body": b"x" * 8, "more_body": received[0] < parts}

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/translate",
            "headers": [(b"host", b"localhost"), *headers],
        }
        await guard(max_body=10)(scope, receive, send)
        return statuses[0], received[0]

    length = (b"content-length", b"800")
    assert asyncio.run(call([length], 100)) == (413, 100)
    assert asyncio.run(call([], 100)) == (413, 100)
    assert asyncio.run(call([length, (b"expect", b"100-continue")], 100)) == (413, 0)
