"""``weft export``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ctranslate2")

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]


def test_a_folder(command: Command, runs: Runs, tmp_path: Path) -> None:
    from weft.translation.engines.ctranslate2.model import CTranslate2Model

    out = tmp_path / "model"
    said = command("export", runs("transformer"), "--format", "ctranslate2", "--out", out, "--quantization", "int8")
    assert said[0] == f"{out}\n"
    assert {"model.bin", "config.json", "recipe.toml", "tokenizer.json"} <= {path.name for path in out.iterdir()}
    assert CTranslate2Model(out, threads=1).info.quantization == "int8"


def test_other_formats(refusal: Refusal, runs: Runs) -> None:
    said = refusal("export", runs("transformer"), "--format", "huggingface")
    assert said.startswith("transformer: model.embedding: 11: in transformers it is the hidden size")
    assert refusal("export", runs("lstm"), "--format", "huggingface").startswith("lstm: model.encoder.kind: 'lstm'")
    assert refusal("export", runs("prefix"), "--format", "onnx").startswith("prefix: model.kind: 'prefix_lm'")
    assert refusal("push", runs("lstm"), "name") == "name: not the name of a model on the Hub; expected OWNER/NAME"


def test_into_the_run(command: Command, runs: Runs, tmp_path: Path) -> None:
    run = shutil.copytree(runs("learned"), tmp_path / "run")
    assert command("export", run)[0] == f"{run / 'ctranslate2-float32'}\n"
    assert (run / "ctranslate2-float32" / "model.bin").is_file()


@pytest.mark.parametrize(
    ("name", "said"), [("lstm", "model.encoder.kind"), ("prefix", "model.kind"), ("language", "model.kind")]
)
def test_what_it_cannot_hold(refusal: Refusal, runs: Runs, tmp_path: Path, name: str, said: str) -> None:
    assert refusal("export", runs(name), "--out", tmp_path / "model").startswith(f"{name}: {said}: ")
    assert not list(tmp_path.iterdir())


def test_other_refusals(refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
    run = runs("transformer")
    assert "did you mean 'ctranslate2'?" in refusal("export", run, "--format", "ctranslate")
    assert refusal("export", run, "--quantization", "int4").startswith("--quantization int4: unknown; ")
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not a CTranslate2 export" in refusal("export", run, "--out", tmp_path)
    assert "no such run folder" in refusal("export", tmp_path / "nothing", "--out", tmp_path / "model")


def test_a_full_disk(refusal: Refusal, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the folder; nothing is left, neither of this export nor of one that was killed."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    for name in (".model.4711.part", ".model.4711.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.bin").write_bytes(b"half")
    monkeypatch.setattr("weft.files.os.fsync", full)
    out = tmp_path / "model"
    assert refusal("export", runs("transformer"), "--out", out) == f"{out}: No space left on device"
    assert not list(tmp_path.iterdir())
