"""The check of compiled kernels: it passes what was compiled here, and keeps what is wrong from being used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import WeftWarning
from weft.fast.cpu import compiled
from weft.fast.steps import native_check

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a new process, with an empty cache."""
    for name in ("_build", "_library", "loaded"):
        monkeypatch.setattr(compiled, name, None)
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))


def test_what_was_compiled_here_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiled.library(wait=True)
    assert library is not None
    found = native_check.differences(library)
    assert found["fp32"] < 1e-4 and found["int8"] < native_check.TOLERANCE["int8"]


@pytest.mark.parametrize(("wrong", "reason"), [
    ("kernels.c:p = p * f * f + f + 1.0f;:p = p * f * f + f + 1.5f;", "log p of an output in fp32 differs"),
    ("beam.c:int kept = 0;:int kept = *(volatile int *)0;", "it ended with status 139"),
])  # fmt: skip
def test_what_is_wrong_is_not_used(wrong: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong exponential function, and a read that ends the process."""
    name, before, after = wrong.split(":")
    sources = tmp_path / "sources"
    sources.mkdir()
    changed = False
    for source in compiled.SOURCES.iterdir():
        text = source.read_text("utf-8")
        if source.name == name or (name == "kernels.c" and source.name == "kernels.h"):
            changed |= before in text
            text = text.replace(before, after)
        (sources / source.name).write_text(text, "utf-8")
    assert changed
    monkeypatch.setattr(compiled, "SOURCES", sources)
    with pytest.warns(WeftWarning, match=reason):
        compiled._compile(compiled.library_path())
    assert compiled.loaded is None
    assert [path.suffix for path in (tmp_path / "native").iterdir()] == [".failed"]


def test_the_check_as_a_process(tmp_path: Path) -> None:
    path = tmp_path / "none.so"
    path.write_bytes(b"not a library")
    command = [sys.executable, "-m", "weft.fast.steps.native_check", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(compiled.PACKAGES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "cannot be loaded" in done.stderr
