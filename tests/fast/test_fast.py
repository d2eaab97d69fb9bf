"""The table of faster versions: every line names things that exist."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from weft.fast import VERSIONS, Version, versions

TESTS = Path(__file__).parent


def find(name: str) -> Any:
    """A function of the core by its name below `weft`."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            value = import_module("weft." + ".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise LookupError(name)


def parameters_of(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def has_self(function: Any) -> bool:
    """Whether it is a method: its faster version may have another name for the object."""
    return parameters_of(function)[0] == "self"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version.plain}-{version.fast}")
def test_a_line_of_the_table(version: Version) -> None:
    plain = find(version.plain)
    assert plain.plain, f"{version.plain} is not replaceable"
    assert (TESTS / version.test).is_file()
    if version.fast.split(".")[0] != "triton":  # modules that need Triton are imported on a GPU only
        first = has_self(plain.plain)
        assert parameters_of(version.call) == parameters_of(version.applies)
        assert parameters_of(version.call)[first:] == parameters_of(plain.plain)[first:]


def test_names_of_others() -> None:
    assert versions("search.constraints.no_such_function") == []
