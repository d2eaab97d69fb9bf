"""RUN and RUN:ADAPTER."""

from pathlib import Path

import pytest

from weft.errors import CheckpointError
from weft.runs.adapted_run import AdaptedRun, adapter_names


@pytest.fixture
def run(tmp_path):
    """A folder that looks like a run with two adapters, and no weights."""
    path = tmp_path / "run"
    for name in ("legal", "medical"):
        (path / "adapters" / name).mkdir(parents=True)
        (path / "adapters" / name / "adapter_model.safetensors").touch()
    (path / "recipe.toml").touch()
    return path


def test_parsed(run, tmp_path):
    assert AdaptedRun.parse(run) == (run, None)
    assert AdaptedRun.parse(f"{run}:legal") == (run, "legal")
    assert AdaptedRun.parse("runs/a:b:c") == (Path("runs/a:b"), "c")
    (tmp_path / "a:b").mkdir()
    assert AdaptedRun.parse(tmp_path / "a:b") == (tmp_path / "a:b", None)


def test_names(run):
    assert adapter_names(run) == ["legal", "medical"]
    assert [str(AdaptedRun.parse(text)) for text in ("a", "a:b")] == ["a", "a:b"]
    assert [AdaptedRun(run, adapter).name for adapter in (None, "legal", "none")] == ["run", "run:legal", "run:none"]


def test_checked(run):
    for adapter in (None, "none", "medical"):
        AdaptedRun(run, adapter).check()
    with pytest.raises(CheckpointError) as caught:
        AdaptedRun.parse(f"{run}:medicl").check()
    assert str(caught.value) == f"{run}:medicl: {run} has no adapter 'medicl'; did you mean 'medical'?"
    with pytest.raises(CheckpointError, match=r"^nowhere: no such run folder"):
        AdaptedRun.parse("nowhere:x").check()
    (run / "adapters" / "legal" / "adapter_model.safetensors").unlink()
    (run / "adapters" / "medical" / "adapter_model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no adapter 'x'; it has none$"):
        AdaptedRun(run, "x").check()
