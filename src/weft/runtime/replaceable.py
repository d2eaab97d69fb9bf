"""Plain functions, in whose place `weft.fast` may put faster ones.

The core is written once, plainly. A function or method of it that has a faster version elsewhere is marked:

    @replaceable
    def log_sum_exp(logits_RV: Tensor) -> Tensor:
        return logits_RV.logsumexp(-1)

When it is called, the table `weft.fast.VERSIONS` is asked for a faster version that applies to these arguments; if
there is none, the plain function runs. This is the only place where the core looks into `weft.fast`, and it does so by
name: without that package weft is slower and just as correct (tests/contracts/test_without_fast.py deletes it).

``WEFT_FAST=0`` in the environment, or `plain_only`, switches all faster versions off. ``function.plain`` is the plain
function itself; ``function.load()`` looks its faster versions up, as the first call does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result", covariant=True)

_plain_only: ContextVar[bool] = ContextVar("plain implementations only", default=False)


class FastVersion(Protocol):
    """A faster version of a plain function; both take the same arguments."""

    def applies(self, *args: Any, **kwargs: Any) -> bool:
        """Whether it can be called with these arguments, and is worth it."""

    def call(self, *args: Any, **kwargs: Any) -> Any: ...


def replaceable(plain: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Mark a plain function for which there is, or may be, a faster version in `weft.fast.VERSIONS`."""
    name = f"{plain.__module__}.{plain.__qualname__}".removeprefix("weft.")
    versions: list[FastVersion] | None = None
    is_compiling: Callable[[], bool] = bool

    def load() -> Sequence[FastVersion]:
        nonlocal versions, is_compiling
        if versions is None:
            versions = list(fast_versions(name))
            is_compiling = import_module("torch.compiler").is_compiling if versions else bool
        return versions

    @wraps(plain)
    def choose(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if versions is None:
            load()
        # torch.compile reads no context variables. What it traces has faster versions.
        if versions and (is_compiling() or not _plain_only.get()):
            for version in versions:
                if version.applies(*args, **kwargs):
                    result: Result = version.call(*args, **kwargs)
                    return result
        return plain(*args, **kwargs)

    choose.plain = plain  # type: ignore[attr-defined]
    choose.load = load  # type: ignore[attr-defined]
    return choose


def plain_of(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The plain function that was marked replaceable."""
    plain: Callable[Parameters, Result] = function.plain  # type: ignore[attr-defined]
    return plain


@contextmanager
def plain_only() -> Iterator[None]:
    """Plain functions only, in the block and in the current context."""
    token = _plain_only.set(True)
    try:
        yield
    finally:
        _plain_only.reset(token)


def fast_versions(name: str) -> Sequence[FastVersion]:
    """The faster versions of a function of the core, by its name below `weft`; the first that applies is used."""
    table = fast_ring()
    return () if table is None else table.versions(name)


@cache
def fast_ring() -> Any:
    """The package `weft.fast`; None if it is switched off or was removed."""
    if os.environ.get("WEFT_FAST") == "0" or find_spec("weft.fast") is None:
        return None
    return import_module("weft.fast")
