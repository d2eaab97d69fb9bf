"""The page: static files of this package, and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request, Response

from weft.apps.serve.errors import ServiceError

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
router = APIRouter(include_in_schema=False)


@router.get("/")
async def index(request: Request) -> Response:
    return file_response(request, "index.html")


@router.get("/page/{path:path}")
async def file(request: Request, path: str) -> Response:
    return file_response(request, path)


def file_response(request: Request, name: str) -> Response:
    """A file of the page by its name, which must be one of those that are there."""
    path = files().get(name)
    if path is None:
        raise ServiceError(404, "not found")
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=TYPES[path.suffix], headers=headers)


def files() -> dict[str, Path]:
    """All files that can be requested; a request never becomes a path."""
    return {
        path.relative_to(FOLDER).as_posix(): path
        for path in FOLDER.rglob("*")
        if path.suffix in TYPES and path.is_file() and not any(part.startswith(".") for part in path.parts[-4:])
    }
