"""A teacher for the tests of distillation."""

from pathlib import Path

import pytest

from weft.translation.translator import Translator


@pytest.fixture(scope="session")
def teacher(copier: Translator) -> Path:
    """The folder of a run that has learned to copy."""
    assert copier.folder is not None
    return copier.folder
