"""The whole application: whatever is sent, nothing but a sentence or a result comes back."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable

from apps.serve.servers import Running, settings, wait_for
from weft.apps.serve import create_app, page
from weft.errors import CheckpointError, DataError

JSON = {"content-type": "application/json"}
SECRET = " ".join(("a", "secret"))
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a" * 4999,
    "\x00a\x00",
    "\u202ea b\u202c \u2066c",
    "👩‍👩‍👧‍👦 a",
    "\ufeffa\u200b b",
    "a\tb\r\nc\x0b\x85\u2028d",
    "⁧" * 100,
    "𝒜" * 300,
    "é" * 50,
    "{{7*7}} ${x} %s %n",
    "../../etc/passwd",
    "'; DROP TABLE runs; --",
]


@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_hostile_texts(running: Running, model: str) -> None:
    """Each is answered as a text, and comes back as it was sent."""
    for text, record in zip(HOSTILE, running.translate(HOSTILE, model=model), strict=True):
        assert record["source"] == text
    for text in HOSTILE[:6]:
        events = running.events(text=text, model=model, search={"max_length": 3})
        assert events[-1][0] == "done" and events[-1][1]["translation"]["source"] == text
        assert running.post("/api/score", pairs=[[text, text]], model=model).status_code == 200
        assert running.post("/api/heads", text=text, target=text[:20], model=model).status_code == 200
        assert running.post("/translate", q=text, source="auto", target="bb").status_code == 200


def test_texts_that_are_no_texts(running: Running) -> None:
    for body in (rb'{"text": "\ud800"}', rb'{"text": ["a", "b\udfff"]}', rb'{"text": "a", "prefix": "\ud800"}'):
        response = running.client.post("/api/translate", content=body, headers=JSON)
        assert response.status_code == 422
        assert "half of a surrogate pair" in response.json()["error"]
    megabyte = running.post("/api/translate", text="a" * 1_000_000)
    assert megabyte.status_code == 413 and "split it" in megabyte.json()["error"]
    too_large = running.client.post("/api/translate", content=b"a" * 3_000_000)
    assert too_large.status_code == 413
    for content in (b"[" * 100_000, b'{"text": 1e999}', b"\xff\xfe", b"", b"null", b'{"text": {"a": 1}}'):
        response = running.client.post("/api/translate", content=content, headers=JSON)
        assert response.status_code in (400, 422) and response.json()["error"], content[:20]
    assert running.client.post("/api/translate", content=b'{"text": "a"}').status_code == 415
    name = running.client.get("/api/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd/tokens?text=a")
    assert name.status_code == 404


def test_no_path_comes_from_a_request(running: Running) -> None:
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/.hidden", "/page/", "/app.py"):
        assert running.client.get(path).status_code == 404, path
    assert all(file.is_relative_to(page.FOLDER) for file in page.files().values())


def test_the_page(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    assert running.client.get("/").status_code == 404
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text("<p>", "utf-8")
    (tmp_path / "views" / "map.js").write_text("export {}", "utf-8")
    (tmp_path / "secret.toml").write_text("", "utf-8")
    first = running.client.get("/")
    assert first.text == "<p>" and first.headers["content-type"] == "text/html; charset=utf-8"
    script = running.client.get("/page/views/map.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = running.client.get("/page/views/map.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304 and script.headers["cache-control"] == "no-cache"
    assert running.client.get("/page/secret.toml").status_code == 404


def test_the_description(running: Running) -> None:
    """Whatever the description allows: no 5xx, no status that it does not list, and JSON."""
    _fuzz(running, "positive", examples=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_description_for_long(running: Running, mode: str) -> None:
    """And whatever it forbids."""
    _fuzz(running, mode, examples=50)


def _fuzz(running: Running, mode: str, examples: int) -> None:
    import schemathesis  # not with the other tests: it takes more than a second

    description = running.client.get("/api/openapi.json").json()
    assert {*description["paths"]} >= {"/api/translate", "/api/translate/stream", "/translate", "/languages", "/ready"}
    operations = [one.ok() for one in schemathesis.openapi.from_dict(description).get_all_operations()]
    calls = 0
    for operation in operations:
        try:
            strategy = operation.as_strategy(schemathesis.GenerationMode(mode))
            strategy.validate()
        except Exception:  # nothing about it can be wrong
            assert mode == "negative"
            continue

        @hypothesis_settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def check(case: Any) -> None:
            nonlocal calls
            calls += 1
            response = case.call(base_url=running.url.rstrip("/"))
            documented = description["paths"][case.operation.path][case.method.lower()]["responses"]
            assert str(response.status_code) in documented, (response.status_code, response.text[:300])
            assert response.status_code < 500, response.text[:300]
            if response.status_code >= 400:
                assert response.json()["error"]

        with suppress(Unsatisfiable):
            check()
    assert calls > 10


@pytest.mark.slow
def test_it_can_be_mounted(recurrent_run: Path) -> None:
    """In another application its workers start with the first request, and `stop` ends them."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    service = create_app({"model": recurrent_run}, settings())

    async def test() -> tuple[Any, int | None]:
        outer = Starlette(routes=[Mount("/mt", app=service)])
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            answer = await client.post("/mt/api/translate", json={"text": "a b"})
        worker = service.models.by_name["model"].worker
        await service.stop()
        assert worker is not None and worker.process is not None
        return answer.json(), await worker.process.wait()

    answer, code = asyncio.run(test())
    assert answer["translations"][0]["source"] == "a b"
    assert code == 0


def test_what_is_no_run(tmp_path: Path) -> None:
    for name in ("a/b", "", "a\n"):
        with pytest.raises(DataError, match="cannot be the name of a run"):
            create_app({name: tmp_path})
    with pytest.raises(CheckpointError, match="no such run folder"):
        create_app([tmp_path / "none"])
    with pytest.raises(DataError, match="no runs were given"):
        create_app([])


def test_errors_in_the_application_itself(
    running: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug is answered too, and the service goes on."""

    def broken(self: Any) -> Any:
        raise ValueError(SECRET)

    monkeypatch.setattr("weft.apps.serve.models.ServedModel.record", broken)
    response = running.client.get("/api/models")
    assert response.status_code == 500
    logged = ""

    def is_logged() -> bool:
        nonlocal logged
        logged += capsys.readouterr().err
        return "ValueError" in logged

    wait_for(is_logged)
    assert SECRET not in logged
    assert json.loads(response.content) == {"error": "an internal error; the service has logged it"}
    assert response.headers["x-content-type-options"] == "nosniff"
    monkeypatch.undo()
    assert running.client.get("/api/models").status_code == 200
