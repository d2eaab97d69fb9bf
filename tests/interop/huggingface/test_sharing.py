"""Runs on a Hub, which is a local server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.local_hub import LocalHub, local_hub
from fixtures.onnx_models import make
from weft.errors import CheckpointError
from weft.interop.huggingface.sharing import pull, push, shared_files
from weft.recipe.toml import write_toml
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.weights import WeightsOrigin, model_tensors

pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with random weights, and files of a user beside them."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    made = make("gru")

    def fill(new: RunFolder) -> None:
        new.recipe.write_text(write_toml(made.recipe), "utf-8")
        made.tokenizers.save(new.path)
        new.write_model(model_tensors(made.model), WeightsOrigin("imported", (0,)))
        new.card.write_text("# tiny\n")

    RunFolder.create(folder, fill)
    (folder / "secret.txt").write_text("mine")
    (folder / "training").mkdir(exist_ok=True)
    (folder / "training" / "state.json").write_text("{}")
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    """A Hub that huggingface_hub takes for its own."""
    import huggingface_hub
    from huggingface_hub import constants

    with local_hub() as server:
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        api = huggingface_hub.HfApi
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=server.address))
        download = huggingface_hub.snapshot_download
        options = {"endpoint": server.address, "cache_dir": tmp_path / "cache"}
        monkeypatch.setattr(
            huggingface_hub, "snapshot_download", lambda name, **given: download(name, **{**given, **options})
        )
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield server


def test_there_and_back(run: Path, hub: LocalHub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    address = push(run, "someone/tiny", private=True, message="first")
    assert address == f"{hub.address}/someone/tiny" and "someone/tiny" in hub.private and hub.messages == ["first"]
    names = {"README.md", "model.safetensors", "recipe.toml", "tokenizer.source.json", "tokenizer.target.json"}
    assert set(hub.models["someone/tiny"]) == names
    out = pull("someone/tiny", tmp_path / "pulled")
    assert {path.name for path in out.iterdir() if path.is_file()} == names
    assert (out / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert capfd.readouterr().err == ""  # no progress bars of huggingface_hub
    assert load_run(out).recipe.name == "tiny"
    assert not hub.unknown
    with pytest.raises(CheckpointError, match="already exists"):
        pull("someone/tiny", out)


def test_an_export(run: Path, hub: LocalHub, tmp_path: Path) -> None:
    """The files that weft wrote, and no others."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "weft.json").write_text('{"weft_export": "onnx", "files": ["config.json"]}')
    (folder / "other.txt").write_text("mine")
    push(folder, "someone/export")
    assert set(hub.models["someone/export"]) == {"config.json", "weft.json"}
    assert "someone/export" not in hub.private and hub.messages == ["weft push export"]
    with pytest.raises(
        CheckpointError, match=r"^someone/export: has no recipe.toml, so it is not a run of weft; `weft"
    ):
        pull("someone/export", tmp_path / "pulled")
    (folder / "weft.json").write_text('{"weft_export": "onnx", "files": ["../secret.txt"]}')
    with pytest.raises(CheckpointError, match=r"names '../secret.txt', which is not a file of this folder$"):
        shared_files(folder)
    (folder / "weft.json").write_text('{"weft_export": "onnx", "files": ["gone.onnx"]}')
    with pytest.raises(CheckpointError, match=r"gone.onnx: missing; export the run again$"):
        shared_files(folder)


def test_damaged(run: Path, hub: LocalHub, tmp_path: Path) -> None:
    """Nothing is written."""
    push(run, "someone/tiny")
    hub.models["someone/tiny"]["model.safetensors"] = b"12345678"
    with pytest.raises(CheckpointError, match=r"^someone/tiny: damaged: ") as error:
        pull("someone/tiny", tmp_path / "pulled")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "pulled").exists()


def test_missing(run: Path, hub: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^someone/none: not downloaded \(") as error:
        pull("someone/none", tmp_path / "pulled")
    assert "\n" not in str(error.value)
    with pytest.raises(CheckpointError, match=r"^tiny: not the name of a model on the Hub; expected OWNER/NAME$"):
        push(run, "tiny")
    with pytest.raises(CheckpointError, match=r"no such folder$"):
        push(tmp_path / "none", "someone/tiny")


def test_no_torch_before_the_download() -> None:
    code = "import sys, weft.interop.huggingface.sharing; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert said.stdout == "False\n"


def test_a_run_folder_by_the_name_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded if there is one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "recipe.toml").write_text("")
    with pytest.raises(CheckpointError, match=r"^runs/tiny"):
        pull("me/tiny")
