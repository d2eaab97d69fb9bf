"""The child process that matches regular expressions of a recipe; its parent is `weft.text.expressions`."""

from __future__ import annotations

import re

from weft.text.isolation import each, serve


def search(expression: str, texts: list[str]) -> list[bool]:
    matches = re.compile(expression).search
    return [matches(text) is not None for text in each(texts)]


def replace(expression: str, replacement: str, texts: list[str]) -> list[str]:
    sub = re.compile(expression).sub
    return [sub(replacement, text) for text in each(texts)]


def expand(expression: str, template: str | None, texts: list[str]) -> list[list[str]]:
    find = re.compile(expression).finditer
    return [[match[0] if template is None else match.expand(template) for match in find(text)] for text in each(texts)]


if __name__ == "__main__":
    serve({"search": search, "replace": replace, "expand": expand})
