"""Plain functions and their faster versions: which one is called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from weft import fast
from weft.runtime import replaceable as module
from weft.runtime.replaceable import fast_ring, fast_versions, plain_only, replaceable


class Doubled:
    """A version for numbers above ten."""

    def applies(self, number: int) -> bool:
        return number > 10

    def call(self, number: int) -> str:
        return f"fast {number}"


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Any:
    def versions(name: str) -> Sequence[Any]:
        assert name == f"{__name__}.function.<locals>.show"
        return [Doubled()]

    monkeypatch.setattr(module, "fast_versions", versions)

    @replaceable
    def show(number: int) -> str:
        """Shows a number."""
        return f"plain {number}"

    return show


def test_the_version_that_applies(function: Any) -> None:
    assert function(3) == "plain 3"
    assert function(11) == function(number=11) == "fast 11"
    assert function.plain(11) == "plain 11"
    assert function.__name__ == "show" and function.__doc__ == "Shows a number."


def test_plain_only(function: Any) -> None:
    with plain_only():
        assert function(11) == "plain 11"
        with plain_only():
            assert function(11) == "plain 11"
        assert function(11) == "plain 11"
    assert function(11) == "fast 11"


def test_no_version() -> None:
    assert not fast_versions("recipe.no_such_function")
    assert replaceable(len)([1, 2]) == 2


@pytest.mark.parametrize(("value", "expected"), [("0", "None"), ("1", "weft.fast")])
def test_the_environment(value: str, expected: str) -> None:
    code = "from weft.runtime.replaceable import fast_ring; ring = fast_ring(); print(ring and ring.__name__)"
    environment = {**os.environ, "WEFT_FAST": value}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == expected


def test_the_ring() -> None:
    assert fast_ring() is fast
