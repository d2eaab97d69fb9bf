"""What tests of tuning share."""

import sys
from pathlib import Path

import pytest

_recorders = []


def _record(event, arguments):
    if event == "open" and _recorders and isinstance(arguments[0], str):
        _recorders[-1].append(Path(arguments[0]))


@pytest.fixture(scope="session")
def _audit():
    sys.addaudithook(_record)  # for the whole process; Python has no way to remove it


@pytest.fixture
def opened_files(_audit):
    """Every file that Python opens during the test."""
    _recorders.append([])
    yield _recorders[-1]
    _recorders.pop()
