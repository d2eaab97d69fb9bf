"""/docs: a page that describes the API, made from its OpenAPI description, with examples. It needs no script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from weft.apps.serve.schemas import PROBLEMS

router = APIRouter(include_in_schema=False)
GROUPS = {
    "Translate": ("/api/translate", "/api/translate/stream", "/api/score"),
    "Look inside": (
        "/api/heads",
        "/api/walk",
        "/api/models/{name}/tokens",
        "/api/models/{name}/neighbors",
        "/api/models/{name}/po",
    ),
    "Models and settings": ("/api/service", "/api/models", "/api/settings", "/api/models/{name}/reload"),
    "Training": ("/api/training",),
    "LibreTranslate": ("/translate", "/languages", "/detect", "/frontend/settings"),
    "Status": ("/health", "/ready", "/metrics"),
}
BODIES: dict[str, Any] = {
    "/api/translate": {"text": ["a first text", "a second text"], "n_best": 2, "search": {"kind": "beam", "size": 4}},
    "/api/translate/stream": {"text": "a text", "search": {"kind": "greedy"}},
    "/api/score": {"pairs": [["a source", "a target"]]},
    "/api/heads": {"text": "a text"},
    "/api/walk": {"text": "a text", "step": 1},
    "/translate": {"q": "a text", "source": "SOURCE", "target": "TARGET", "format": "text"},
    "/detect": {"q": "a text"},
}
QUERIES = {
    "/api/models/{name}/tokens": "?text=a%20text",
    "/api/models/{name}/neighbors": "?id=5&count=3",
    "/api/models/{name}/positions": "?length=8",
}
INTRODUCTION = """
<p>Requests and answers are JSON in UTF-8. Where keys are needed, send one as
<code>Authorization: Bearer KEY</code>. <a href="api/openapi.json">The OpenAPI description</a> is for programs.</p>
"""


@router.get("/docs")
async def docs(request: Request) -> Response:
    app: FastAPI = request.app
    served = app.state.models.by_name
    first = next(iter(served.values()))
    source, target = first.languages
    names = {"{name}": first.name, "SOURCE": source, "TARGET": target}
    return Response(page(app.openapi(), names), media_type="text/html; charset=utf-8")


def page(description: dict[str, Any], names: dict[str, str]) -> str:
    """The page; ``names``: what to put in place of {name}, SOURCE and TARGET in the examples."""
    schemas = description.get("components", {}).get("schemas", {})
    parts = [INTRODUCTION, _errors()]
    paths = list(description["paths"])
    for group, prefixes in GROUPS.items():
        members = [path for path in paths if path in prefixes or _begins(path, prefixes)]
        parts.append(f"<h2>{escape(group)}</h2>")
        for path in members:
            for method, operation in description["paths"][path].items():
                parts.append("".join(_operation(method, path, operation, schemas, names)))
    title = f"The API of this service · weft {description['info']['version']}"
    styles = "".join(f'<link rel="stylesheet" href="page/styles/{name}.css">' for name in ("base", "parts", "docs"))
    icon = '<link rel="icon" href="page/weft.svg" type="image/svg+xml">'
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    home = '<p><a href="./">Back to the page</a></p>'
    body = f'<main class="docs">{home}<h1>{escape(title)}</h1>{"".join(parts)}</main>'
    return f'<!doctype html><html lang="en"><head>{head}{icon}{styles}</head><body>{body}</body></html>'


def _begins(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a path is below one that is listed as the beginning of others."""
    return any(path.startswith(prefix) for prefix in prefixes if prefix.endswith("/po") or prefix == "/api/training")


def _errors() -> str:
    rows = "".join(
        f"<tr><td>{status}</td><td>{escape(entry['description'])}</td></tr>" for status, entry in PROBLEMS.items()
    )
    return (
        '<p>An error is a status and a sentence: <code>{"error": "search.size: 65; at most 64 is accepted"}</code>.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Statuses"><table><caption>Statuses</caption>{rows}'
        "</table></div>"
    )


def _operation(
    method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any], names: dict[str, str]
) -> Iterator[str]:
    """One request: what it does, its fields, and an example."""
    yield f"<section><h3><code>{method.upper()} {escape(path)}</code></h3>"
    yield f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
    parameters = [
        (one["name"], _type(one["schema"], schemas), one["schema"].get("default", ""), one.get("description", ""))
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    ]
    yield _table("Parameters of the address", parameters)
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        schema = _resolved(next(iter(content.values()))["schema"], schemas)
        required = schema.get("required", ())
        fields = [
            (
                name,
                _type(field, schemas),
                "needed" if name in required else json.dumps(field.get("default"), ensure_ascii=False),
                field.get("description", ""),
            )
            for name, field in schema.get("properties", {}).items()
        ]
        yield _table("Fields of the body", fields)
        if len(content) > 1:
            yield f"<p>Also as {escape(', '.join(list(content)[1:]))}.</p>"
    yield f"<pre><code>{escape(example(method, path, names))}</code></pre></section>"


def example(method: str, path: str, names: dict[str, str]) -> str:
    """A command that sends such a request."""
    address = f"http://127.0.0.1:8000{path}{QUERIES.get(path, '')}".replace("{name}", names["{name}"])
    if path not in BODIES:
        return f"curl {address}" if method == "get" else f"curl -X {method.upper()} {address}"
    return f"curl {address} -H 'Content-Type: application/json' \\\n     -d '{json.dumps(body_of(path, names))}'"


def body_of(path: str, names: dict[str, str]) -> Any:
    """The body of the example of a path."""
    values = BODIES[path]
    return {name: names.get(value, value) if isinstance(value, str) else value for name, value in values.items()}


def _table(caption: str, rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return ""
    cells = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("name", "type", "default", ""))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></div>"
    )


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _type(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The type of a value in a few words."""
    if "anyOf" in schema:
        return " or ".join(_type(one, schemas) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return ", ".join(_resolved(schema, schemas).get("properties", {})) or "object"
    kind = schema.get("type", "object")
    if kind == "array":
        items = schema.get("items") or {"type": "value"}
        return f"list of {_type(items, schemas)}" if items else "list"
    return {"null": "nothing", "string": "text"}.get(kind, kind)
