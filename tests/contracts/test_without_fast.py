"""weft without `weft.fast`: deleted, what the core computes is the same, and all of it works on a CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft

TESTS = Path(__file__).parents[1]
PLAIN = ("contracts", "attention", "models", "search", "learning")
"""The contracts, what is compared with the oracles, and what is learned."""
OF_FAST = ("contracts/test_gpu.py", "contracts/test_without_fast.py")
"""Contracts of `fast/` itself; products of eight bits (`eight_bits`) are in it, too."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the library in which `fast/` is deleted."""
    folder = tmp_path_factory.mktemp("plain") / "src"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(weft.__file__).parent, folder / "weft", ignore=ignored)
    shutil.rmtree(folder / "weft" / "fast")
    return folder


@pytest.mark.journey
@pytest.mark.parametrize("tests", PLAIN)
def test_without_it(source: Path, tests: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(TESTS / tests)]
    command += ["-k", "not eight_bits", *(f"--ignore={TESTS / name}" for name in OF_FAST)]
    environment = {**os.environ, "PYTHONPATH": f"{source}", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-5000:]


def test_the_command_line(source: Path, tmp_path: Path) -> None:
    """Train and translate, in a process each."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}

    def run(*arguments: str, text: str = "") -> str:
        command = [sys.executable, "-m", "weft", *arguments]
        result = subprocess.run(
            command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True, check=True
        )
        return result.stdout

    sizes = ("model.embedding=8", "model.encoder.hidden=8", "model.decoder.hidden=8", "data.train_size=100")
    settings = [*sizes, "data.valid_size=10", "training.steps=3", "training.validate_every=3", 'training.device="cpu"']
    run("train", "grammar", "--out", "run", *(part for change in settings for part in ("--set", change)))
    assert run("translate", "run", text="he hit me with a pie\n").count("\n") == 1
