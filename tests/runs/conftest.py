import shutil

import pytest

from weft.runs.layout import RunFolder


@pytest.fixture
def run(finished, tmp_path):
    """A run folder to damage."""
    return RunFolder(shutil.copytree(finished, tmp_path / "run"))
