"""What earlier versions of weft left on disk opens in this one, and gives what it gave then.

One folder below tests/fixtures/formats for each state of the formats; its ``make.py`` says how they were made.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import weft
from fixtures.formats.make import read_store, translate_exported
from weft.errors import CheckpointError
from weft.runs.layout import RunFolder
from weft.training.train import train
from weft.translation.resumable_output import ResumableOutput

FORMATS = Path(__file__).parent.parent / "fixtures" / "formats"
VERSIONS = sorted(path.parent for path in FORMATS.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the stored files of one version."""
    return Path(shutil.copytree(request.param, tmp_path / "stored"))


def test_there_is_one_of_each_format() -> None:
    assert VERSIONS
    for name in ("run/model.safetensors", "store/about.json", "ctranslate2/model.bin", "output.txt.part.json"):
        assert all((version / name).is_file() for version in VERSIONS), name


def test_a_run_folder_translates_as_it_did(stored: Path) -> None:
    expected = json.loads((stored / "expected.json").read_text("utf-8"))
    run = weft.load(stored / "run", device="cpu", engine="torch")
    assert [translation.text for translation in run.translate(expected["sources"])] == expected["torch"]


def test_a_run_folder_can_be_resumed(stored: Path) -> None:
    """For two more steps; the log goes on where it ended."""
    folder = RunFolder(stored / "run")
    before = folder.log.read_text("utf-8").splitlines()
    step = folder.read_checkpoint().state["step"]
    recipe = weft.load_recipe(folder.recipe, [f"training.steps={step + 2}", "training.log_every=1"])
    assert list(train(recipe, folder.path, resume=True))
    assert folder.read_checkpoint().state["step"] == step + 2
    after = [json.loads(line) for line in folder.log.read_text("utf-8").splitlines()]
    assert [json.loads(line)["step"] for line in before if '"step"' in line][:3] == [
        record["step"] for record in after if "step" in record
    ][:3]
    assert [record["step"] for record in after if record["event"] == "step"][-2:] == [step + 1, step + 2]


def test_a_prepared_corpus(stored: Path) -> None:
    expected = json.loads((stored / "expected.json").read_text("utf-8"))
    assert len(expected["store"]) == 20 and read_store(stored / "store") == expected["store"]


def test_an_exported_model(stored: Path) -> None:
    pytest.importorskip("ctranslate2")
    expected = json.loads((stored / "expected.json").read_text("utf-8"))
    assert translate_exported(stored / "ctranslate2", expected["sources"]) == expected["ctranslate2"]


def test_a_translation_that_was_killed(stored: Path) -> None:
    """Its progress is read, and only the lines that are left are written."""
    progress = json.loads((stored / "output.txt.part.json").read_text("utf-8"))
    sources = (stored / "sources.txt").read_text("utf-8").splitlines()
    done = (stored / "output.txt.part").read_bytes()[: progress["bytes"]]
    with ResumableOutput(stored / "output.txt", resume=True) as output:
        remaining = iter(sources)
        output.begin(progress["made_by"], remaining)
        left = list(remaining)
        assert 0 < len(left) == len(sources) - progress["lines"] < len(sources)
        output.add(left, b"the rest\n")
        output.finish()
    assert (stored / "output.txt").read_bytes() == done + b"the rest\n"


def test_the_first_format_is_refused_in_one_line() -> None:
    with pytest.raises(CheckpointError) as refused:
        weft.load(FORMATS / "run-format-1")
    message = str(refused.value)
    assert "written by an older weft (format 1; this one reads 2" in message and "\n" not in message
