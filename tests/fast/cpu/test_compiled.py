"""Kernels in C: the linear maps against PyTorch, where they are compiled, and what happens without a compiler."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
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
@pytest.mark.parametrize("shape", [(1, 1), (3, 513), (23, 7), (41, 131), (150, 260)])
def test_linear_maps(rows: int, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
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
            found = compiled.few_rows_linear(inputs_RD, integers.native_map())
            with monkeypatch.context() as patch:
                patch.setattr(compiled, "loaded", None)
                expected = integers(inputs_RD)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("outputs", [1, 3, 4, 5])
def test_the_largest_integers(outputs: int) -> None:
    assert compiled.library(wait=True) is not None
    for inputs in (1, 31, 32, 63, 64, 65, 509):
        weight_GD, inputs_RD = torch.ones(outputs, inputs), torch.ones(2, inputs)
        inputs_RD[1] = -1.0
        integers = Int8Linear(weight_GD)
        found = compiled.few_rows_linear(inputs_RD, integers.native_map())
        torch.testing.assert_close(found, inputs_RD @ weight_GD.T, rtol=1e-5, atol=0.0)


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
    assert {path.suffix for path in fresh.glob("native/*")} == ({".failed"} if "fails" in reason else set())


def test_a_compiler_that_has_failed_is_not_started_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Path] = []

    def start(compiler: str, building: Path, path: Path) -> subprocess.Popen[bytes]:
        started.append(path)
        return plain(compiler, building, path)

    plain = compiled._start_compiler
    monkeypatch.setattr(compiled, "find_compiler", lambda: "/bin/false")
    monkeypatch.setattr(compiled, "_start_compiler", start)
    for _ in range(2):
        monkeypatch.setattr(compiled, "_build", None)
        assert compiled.library(wait=True) is None
    assert len(started) == 1
    os.utime(started[0].with_suffix(".failed"), (1.0, 1.0))
    monkeypatch.setattr(compiled, "_build", None)
    assert compiled.library(wait=True) is None
    assert len(started) == 2


def compiler_of(folder: Path, script: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_hangs_is_ended(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiler_of(tmp_path, f"echo $$ > {tmp_path}/number; exec sleep 600")
    monkeypatch.setattr(compiled, "find_compiler", lambda: compiler)
    monkeypatch.setattr(compiled, "COMPILE_SECONDS", 2)
    assert compiled.library(wait=True) is None
    number = int((tmp_path / "number").read_text())
    for _ in range(1000):  # until init, or whoever adopts it, has seen that it ended
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            break
        if state == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail("the compiler is running")
    assert [path.suffix for path in (fresh / "native").iterdir()] == [".failed"]


def test_the_compiler_runs_in_a_folder_of_its_own(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder may be a stranger's: nothing in it is a program or a header."""
    (stranger := tmp_path / "stranger").mkdir()
    for name in ("cc", "gcc", "clang", "mv", "rm"):
        Path(compiler_of(stranger, f"touch {tmp_path}/was-run")).rename(stranger / name)
    (stranger / "kernels.h").write_text("#error a header of a stranger\n")
    (stranger / "math.h").write_text("#error a header of a stranger\n")
    monkeypatch.chdir(stranger)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    monkeypatch.setenv("CPATH", ":/nonexistent")
    monkeypatch.setenv("CC", "./cc")
    compiler = compiled.find_compiler()
    assert compiler is None or Path(compiler).is_absolute()
    compiler = compiler_of(tmp_path, f"pwd > {tmp_path}/folder; exit 1")
    monkeypatch.setattr(compiled, "find_compiler", lambda: compiler)
    assert compiled.library(wait=True) is None
    assert Path((tmp_path / "folder").read_text().strip()).parent == (fresh / "native").resolve()
    assert not (tmp_path / "was-run").exists()


@needs_compiler
def test_the_library_is_private_whatever_the_umask(fresh: Path) -> None:
    before = os.umask(0o002)
    try:
        assert compiled.library(wait=True) is not None
    finally:
        os.umask(before)
    [library] = (fresh / "native").iterdir()
    assert compiled.is_private(library) and compiled.is_private(library.parent)


def test_a_folder_that_others_can_write_is_not_used(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "native").mkdir()
    (fresh / "native").chmod(0o777)
    monkeypatch.setattr(compiled, "find_compiler", lambda: "/bin/false")
    assert compiled.library(wait=True) is None
    assert not list((fresh / "native").iterdir())
    (fresh / "native").chmod(0o700)
    assert compiled.is_private(fresh / "native")
    fresh.chmod(0o777)
    assert not compiled.is_private(fresh / "native")


@needs_compiler
def test_a_build_that_was_killed_is_begun_again(fresh: Path) -> None:
    path = compiled.library_path()
    assert path is not None
    building = path.with_suffix(".building")
    building.mkdir(parents=True)
    path.parent.chmod(0o700)
    os.utime(building, (1.0, 1.0))
    assert compiled.library(wait=True) is not None
    assert not building.exists()


@needs_compiler
def test_a_forked_process_computes() -> None:
    """Threads are not copied into a child: it starts its own."""
    assert compiled.library(wait=True) is not None
    linear, inputs_RD = torch.nn.Linear(260, 701), torch.randn(5, 260)
    described = compiled.Linear.of(linear.weight, linear.bias)
    with torch.no_grad(), thread_count(2):
        expected = compiled.few_rows_linear(inputs_RD, described)
        if not (child := os.fork()):
            signal.alarm(30)
            os._exit(0 if compiled.few_rows_linear(inputs_RD, described).equal(expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_compiler
def test_several_threads_of_a_process() -> None:
    assert compiled.library(wait=True) is not None
    linear, inputs_RD = torch.nn.Linear(260, 701), torch.randn(5, 260)
    described = compiled.Linear.of(linear.weight, linear.bias)
    with torch.no_grad(), thread_count(2), ThreadPoolExecutor(4) as pool:
        expected = linear(inputs_RD)
        for found in pool.map(lambda _: compiled.few_rows_linear(inputs_RD, described), range(200)):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@needs_compiler
def test_inputs_that_do_not_fit_are_refused() -> None:
    assert compiled.library(wait=True) is not None
    described = compiled.Linear.of(torch.zeros(3, 5), None)
    for inputs_RD in (torch.zeros(1, 4), torch.zeros(1, 5, dtype=torch.float64), torch.zeros(5, 1).T[:, ::2]):
        with pytest.raises(ValueError, match=r"float32 inputs|contiguous"):
            compiled.few_rows_linear(inputs_RD, described)
    assert compiled.few_rows_linear(torch.zeros(0, 5), described).shape == (0, 3)


@needs_compiler
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_not_hidden(bad: float) -> None:
    assert compiled.library(wait=True) is not None
    linear, inputs_RD = torch.nn.Linear(37, 5), torch.randn(3, 37)
    inputs_RD[1, 7] = bad
    integers = Int8Linear(linear.weight, linear.bias)
    with torch.no_grad():
        for found in (compiled.few_rows_linear(inputs_RD, described) for described in (
            compiled.Linear.of(linear.weight, linear.bias), integers.native_map()
        )):  # fmt: skip
            assert found[[0, 2]].isfinite().all() and not found[1].isfinite().any()


def test_instructions_follow_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, expected in (("AVX512", "-mavx512f"), ("AVX2", "-mavx2"), ("DEFAULT", None)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        options = [option for option in compiled.compile_options() if option.startswith("-mavx")]
        assert (options[0] if options else None) == expected
