"""Entries of config.json at the limits of what each may be."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import SHOWN, Configuration


def config(value: Any) -> Configuration:
    return Configuration({"entry": value}, "config.json")


def refused(read: Any, problem: str) -> None:
    with pytest.raises(CheckpointError, match=f"^config.json: entry: {re.escape(problem)}$"):
        read("entry")


@pytest.mark.parametrize(("value", "least"), [(1, 1), (0, 0), (2**31 - 1, 1), (7, 7)])
def test_whole_numbers(value: int, least: int) -> None:
    assert config(value).whole("entry", 3, least=least) == value


@pytest.mark.parametrize(
    ("value", "least"), [(0, 1), (-1, 0), (2**31, 1), (True, 1), (False, 0), (2.0, 1), ("2", 1), (6, 7)]
)
def test_refused_whole_numbers(value: Any, least: int) -> None:
    def read(name: str) -> int:
        return config(value).whole(name, 3, least=least)

    refused(read, f"{value!r} was found, expected a whole number of at least {least}")


def test_the_least_whole_number_is_one_by_default() -> None:
    refused(config(0).whole, "0 was found, expected a whole number of at least 1")


@pytest.mark.parametrize("value", [0, 0.0, 2, 0.5, 1e30])
def test_numbers(value: float) -> None:
    assert config(value).number("entry", 3.0) == value


@pytest.mark.parametrize("value", [-1, -0.1, math.inf, math.nan, True, "1"])
def test_refused_numbers(value: Any) -> None:
    refused(lambda name: config(value).number(name, 3.0), f"{value!r} was found, expected a number of at least 0")


def test_shares() -> None:
    assert (config(0).share("entry", 0.1), config(0.99).share("entry", 0.1)) == (0.0, 0.99)
    refused(lambda name: config(1).share(name, 0.1), "1 was found, expected a number below 1")


def test_flags() -> None:
    assert config(False).flag("entry", True) is False and config(True).flag("entry", False) is True
    refused(lambda name: config(0).flag(name, True), "0 was found, expected true or false")


def test_activations() -> None:
    assert config("gelu_new").activation("entry") == "gelu_tanh"
    assert config("gelu_new").activation("entry", "swish") == "silu"
    refused(config(3).activation, "3 is not known; weft has gelu, gelu_new, gelu_python, gelu_pytorch_tanh, relu, "
            "silu, swish")  # fmt: skip


@pytest.mark.parametrize("values", [{}, {"entry": None}])
def test_entries_that_are_not_set(values: dict[str, Any]) -> None:
    empty = Configuration(values, "config.json")
    assert empty.whole("entry", 0, least=0) == 0 and empty.number("entry", 0.0) == 0.0
    assert empty.share("entry", 0.1) == 0.1 and empty.flag("entry", False) is False
    assert empty.activation("entry") == "gelu"
    refused(empty.whole, "is missing")


def test_long_values_are_cut() -> None:
    for length, shown in ((SHOWN - 2, f"'{'x' * (SHOWN - 2)}'"), (SHOWN - 1, f"'{'x' * (SHOWN - 1)}…")):
        refused(lambda name, n=length: config("x" * n).number(name, 0.0), f"{shown} was found, expected a number of "
                "at least 0")  # fmt: skip
