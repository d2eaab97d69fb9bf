"""Kernels in C: the linear maps against PyTorch, where they are compiled, and what happens without a compiler."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

from weft.fast.cpu import compiled
from weft.fast.cpu.int8 import Int8Linear
from weft.runtime.switches import thread_count

needs_compiler = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)


@needs_compiler
@pytest.mark.parametrize("rows", range(1, 18))
@pytest.mark.parametrize("shape", [(23, 7), (41, 131), (150, 260)])
def test_linear_maps(rows: int, shape: tuple[int, int]) -> None:
    assert compiled.library(wait=True) is not None
    torch.manual_seed(rows)
    linear, inputs_RD = torch.nn.Linear(*reversed(shape)), torch.randn(rows, shape[1])
    with torch.no_grad():
        torch.testing.assert_close(
            compiled.few_rows_linear(inputs_RD, compiled.Linear.of(linear.weight, linear.bias)),
            linear(inputs_RD), rtol=1e-4, atol=1e-5,
        )  # fmt: skip
        for bound in (None, 2.0):
            integers = Int8Linear(linear.weight, linear.bias, bound=bound)
            torch.testing.assert_close(
                compiled.few_rows_linear(inputs_RD, integers.native_map()),
                integers(inputs_RD), rtol=1e-4, atol=1e-4,
            )  # fmt: skip


@needs_compiler
def test_threads_share_a_product() -> None:
    assert compiled.library(wait=True) is not None
    linear, inputs_RD = torch.nn.Linear(260, 701), torch.randn(5, 260)
    with torch.no_grad():
        expected = linear(inputs_RD)
        for threads in (1, 2, 3):
            with thread_count(threads):
                found = compiled.few_rows_linear(inputs_RD, compiled.Linear.of(linear.weight, linear.bias))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in a new process, with an empty cache."""
    for name in ("_build", "_library"):
        monkeypatch.setattr(compiled, name, None)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path


@needs_compiler
def test_a_process_finds_what_another_has_compiled(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.library(wait=True) is not None
    assert [path.suffix for path in (fresh / "native").iterdir()] == [".so"]
    monkeypatch.setattr(compiled, "_build", None)
    monkeypatch.setattr(compiled, "_library", None)
    assert compiled.library() is not None


@needs_compiler
def test_a_library_that_others_can_write_is_not_loaded(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiled.library_path()
    assert path is not None
    path.parent.mkdir()
    path.write_bytes(b"not a library")
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    monkeypatch.setattr(compiled, "_compile", lambda path: None)
    assert compiled.library(wait=True) is None


@pytest.mark.parametrize("reason", ["off", "no compiler", "a compiler that fails", "no folder"])
def test_without_a_library(fresh: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "off":
        monkeypatch.setenv("WEFT_NATIVE", "0")
    elif reason == "no compiler":
        monkeypatch.setattr(compiled, "find_compiler", lambda: None)
    elif reason == "no folder":
        (fresh / "native").write_text("a file")
    else:
        monkeypatch.setattr(compiled, "find_compiler", lambda: "/bin/false")
    assert compiled.library(wait=True) is None
    assert not list(fresh.glob("native/*"))


def test_instructions_follow_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, expected in (("AVX512", "-mavx512f"), ("AVX2", "-mavx2"), ("DEFAULT", None)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        options = [option for option in compiled.compile_options() if option.startswith("-mavx")]
        assert (options[0] if options else None) == expected
