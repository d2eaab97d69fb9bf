"""A process that compiles: what it is told, what it answers, and every way in which it can fail."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from weft.fast.recording import compiler_process
from weft.fast.recording.compiler_process import Absent, AbsentTorch, CompilerProcess, KernelJob

READS = """
import os, pickle, sys, time
def job():
    header = sys.stdin.buffer.read(16)
    size = int.from_bytes(header[8:], "big")
    return int.from_bytes(header[:8], "big"), pickle.loads(sys.stdin.buffer.read(size)) if header else None
def answer(text):
    os.write(1, text)
"""
ECHO = """
answer(b"ready\\n")
while True:
    number, value = job()
    if value is None:
        break
    answer(b"%d %d\\n" % (number, value == "good"))
"""


def started(script: str, seconds: float = 30.0) -> CompilerProcess:
    process = CompilerProcess([sys.executable, "-c", READS + script], seconds=seconds)
    processes.append(process)
    return process


processes: list[CompilerProcess] = []


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    yield
    while processes:
        process = processes.pop()
        process.close()
        assert process._process.returncode is not None


def wait_until_ready(process: CompilerProcess) -> None:
    deadline = time.monotonic() + 60
    while not process.is_ready:
        assert time.monotonic() < deadline and not process.has_ended
        time.sleep(0.01)


def test_each_job_has_its_answer() -> None:
    process = started(ECHO)
    wait_until_ready(process)
    assert [process.compile(job) for job in ("good", "bad", "good")] == [True, False, True]


def test_before_it_is_ready_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_process, "STARTING_SECONDS", 0.01)
    assert not started("time.sleep(60)").compile("good")


def test_one_that_is_about_to_be_ready_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_process, "STARTING_SECONDS", 60.0)
    assert started("time.sleep(0.5)" + ECHO).compile("good")


def test_one_that_ends_leaves_its_jobs_undone() -> None:
    process = started('answer(b"ready\\n"); job(); sys.exit(3)')
    wait_until_ready(process)
    assert not process.compile("good")
    assert process.has_ended and not process.compile("good")


def test_one_that_does_not_answer_is_ended() -> None:
    process = started('answer(b"ready\\n"); time.sleep(600)', seconds=0.3)
    wait_until_ready(process)
    assert not process.compile("good") and process.has_ended


def test_one_without_work_is_ended() -> None:
    process = started(ECHO, seconds=0.3)
    wait_until_ready(process)
    process._process.wait(60)
    process._reader.join(60)
    assert process.has_ended and not process.compile("good")


def test_without_triton_it_ends_at_once() -> None:
    """A program that cannot compile is no error of the run."""
    process = CompilerProcess([sys.executable, "-c", "import no_such_compiler"])
    process._reader.join(60)
    assert process.has_ended and not process.is_ready and not process.compile("good")


def test_a_job_names_its_kernel() -> None:
    def kernel() -> None: ...

    kernel.__module__ = "weft.fast.triton.add_norm"
    src = SimpleNamespace(fn=SimpleNamespace(fn=kernel), signature={"x": "*fp32"}, constants={(1,): 8}, attrs={})
    target, options, env_vars = "sm_90", SimpleNamespace(num_warps=4), {"A": "1"}

    def compile_kernel() -> object:
        return src, target, options, env_vars

    job = KernelJob.of(compile_kernel, dict)
    assert (job.module, job.name) == ("weft.fast.triton.add_norm", "kernel")
    assert job.signature == {"x": "*fp32"} and job.constants == {(1,): 8} and job.options == {"num_warps": 4}
    assert (job.target, job.environment, job.launcher) == ("sm_90", {"A": "1"}, dict)


def test_modules_of_kernels_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = AbsentTorch()
    assert finder.find_spec("weft.torch_private") is None and finder.find_spec("torchvision") is None
    spec = finder.find_spec("torch.nn")
    assert spec is not None
    torch: Any = finder.create_module(spec)
    assert isinstance(torch, Absent)

    class Function(torch.autograd.Function):
        values: torch.Tensor | None = None

    @torch.library.custom_op("weft::attention", mutates_args=())
    def attention(values: torch.Tensor | None) -> tuple[torch.Tensor, ...]: ...

    @attention.register_fake
    def _(values: torch.Tensor) -> None: ...

    assert Function().values is None
    assert not hasattr(torch, "__file__")


@pytest.mark.gpu
def test_a_kernel_of_triton(tmp_path, monkeypatch) -> None:
    """What the process has compiled is found in Triton's cache."""
    script = """
import time, torch
from triton import knobs
from weft.fast.recording import compilation
from weft.fast.triton.add_norm import add_norm
compilation._compilation.begin_process()
process = compilation._compilation.process
while not process.is_ready:
    assert not process.has_ended
    time.sleep(0.05)
hits = []
knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
values, bias = torch.randn(8, 48, device="cuda"), torch.randn(48, device="cuda")
compilation.rehearse(lambda: add_norm(values, values, bias, bias, 1e-5))
compilation.wait_for_kernels()
print(hits)
sums, _ = add_norm(values, values, bias, bias, 1e-5)
assert torch.equal(sums, 2 * values) and len(hits) == 1
"""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.split() == ["[True]"], done.stderr
