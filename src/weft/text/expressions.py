"""Regular expressions of a recipe, as Python's `re` understands them, with a limit on their time.

Python's `re` backtracks: ``(a+)+$`` takes 2^n steps for n times ``a``, and nothing can interrupt it. Expressions that
may do that are matched in a child process with a limit on CPU time (`weft.text.isolation`). Expressions without
repetition, choice or group take time in proportion to the text, and are matched here.

Two other engines would need no child, at a price that was too high. With its timeout, the package `regex` takes 3 to 15
times as long for ordinary expressions, and its ``\\w`` matches 30,000 other characters. RE2 takes 2 to 14 times as
long when called from Python, has no lookaround and no back references, and its ``\\w`` knows ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from weft.text.isolation import IsolatedError, IsolatedProcess

MAX_TEXTS = 256
"""Texts of one call to the child process; its time limit is for all of them."""


class SlowExpressionError(Exception):
    """An expression that takes too long on a text; the message is the reason."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason)
        self.text = text


def search(expression: str, texts: list[str]) -> list[bool]:
    """Whether the expression matches anywhere in each text."""
    if _takes_linear_time(expression):
        matches = re.compile(expression).search
        return [matches(text) is not None for text in texts]
    return _call(texts, lambda part: _process().call("search", expression, part))


def replace(expression: str, replacement: str, texts: list[str]) -> list[str]:
    """The texts with every match replaced, as by `re.sub`."""
    if _takes_linear_time(expression):
        sub = re.compile(expression).sub
        return [sub(replacement, text) for text in texts]
    return _call(texts, lambda part: _process().call("replace", expression, replacement, part))


def expand(expression: str, template: str | None, texts: list[str]) -> list[list[str]]:
    """For every match in each text the template with its groups, as by `re.Match.expand`; None: the match itself."""
    return _call(texts, lambda part: _process().call("expand", expression, template, part))


def check_replacement(pattern: re.Pattern[str], replacement: str) -> None:
    """Raise `re.error` or `IndexError` if a replacement does not fit an expression.

    The expression itself is not matched, which may take exponential time even in an empty text. In its place stands one
    that has its groups and matches immediately.
    """
    names = {index: f"?P<{name}>" for name, index in pattern.groupindex.items()}
    re.sub("".join(f"({names.get(index, '')})" for index in range(1, pattern.groups + 1)), replacement, "")


def _takes_linear_time(expression: str) -> bool:
    return not any(character in expression for character in "*+?{|(")


def _call(texts: list[str], call: Callable[[list[str]], list[Any]]) -> list[Any]:
    results: list[Any] = []
    for start in range(0, len(texts), MAX_TEXTS):
        try:
            results += call(texts[start : start + MAX_TEXTS])
        except IsolatedError as error:
            raise SlowExpressionError(str(error), texts[start + max(error.item, 0)]) from None
    return results


@cache
def _process() -> IsolatedProcess:
    return IsolatedProcess("weft.text.isolated_expressions")
