"""/docs: every request of the API, with an example that works, and nothing from elsewhere."""

from __future__ import annotations

import html
import re

import pytest

from apps.serve.servers import Running
from weft.apps.serve.api_page import BODIES, GROUPS, QUERIES, body_of, example

NAMES = {"{name}": "recurrent", "SOURCE": "aa", "TARGET": "bb"}


def test_every_request_is_described(running: Running) -> None:
    response = running.client.get("/docs")
    assert response.status_code == 200 and response.headers["content-type"] == "text/html; charset=utf-8"
    text = response.text
    shown = set(re.findall(r"<h3><code>(\w+ [^<]+)</code>", text))
    paths = running.client.get("/api/openapi.json").json()["paths"]
    assert shown == {f"{method.upper()} {html.escape(path)}" for path in paths for method in paths[path]}
    for heading in GROUPS:
        assert f"<h2>{heading}</h2>" in text
    assert "<script" not in text and "http" not in re.sub(r"http://127\.0\.0\.1:8000", "", text)
    assert "multipart/form-data" in text and "search.size: 65" in text


@pytest.mark.parametrize("path", sorted(BODIES))
def test_the_examples_work(running: Running, path: str) -> None:
    response = running.client.post(path, json=body_of(path, NAMES))
    assert response.status_code == 200, response.text
    assert path in example("post", path, NAMES) and '"' in example("post", path, NAMES)


@pytest.mark.parametrize("path", sorted(QUERIES))
def test_the_examples_of_addresses(running: Running, path: str) -> None:
    address = f"{path}{QUERIES[path]}".replace("{name}", "transformer")
    assert running.client.get(address).status_code in (200, 404), "the tiny Transformer may have no table of positions"
    assert example("get", path, NAMES).startswith("curl http://127.0.0.1:8000/api/models/recurrent/")


def test_other_examples() -> None:
    assert example("get", "/health", NAMES) == "curl http://127.0.0.1:8000/health"
    assert example("post", "/api/models/{name}/reload", NAMES).startswith("curl -X POST http")
