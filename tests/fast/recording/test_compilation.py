"""Kernels compiled ahead, with a Triton that is simulated; on a GPU, what was rehearsed is not compiled again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.fast.recording import compilation
from weft.fast.recording.compilation import (
    BackgroundCompilation,
    CompilerThreads,
    Rehearsals,
    rehearse,
    wait_for_kernels,
)

active_mode: ContextVar[Any] = ContextVar("mode", default=None)


class Kernel:
    def __init__(self, function: JITFunction) -> None:
        self.src = self.metadata = function

    def __call__(self, source: Tensor, target: Tensor) -> None:
        target.copy_(2 * source)


class JITFunction:
    """A kernel that doubles its first argument into its second, compiled for each type of it."""

    def __init__(self, compiling: Any = lambda: None) -> None:
        self.compiling = compiling
        self.kernels: dict[Any, Any] = {}
        self.compiled: list[Any] = []
        self.launched: list[Any] = []
        self.launchers: list[threading.Thread] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *arguments, **options: self.run(*arguments, grid=grid, warmup=False, **options)

    def compile(self, key: Any) -> Any:
        self.compiling()
        self.compiled.append(key)
        return Kernel(self)

    def run(self, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        key = arguments[0].dtype
        kernel = self.kernels.get(key)
        if kernel is None:
            mode = active_mode.get()
            if mode is None:
                kernel = self.kernels[key] = self.compile(key)
            else:
                kernel = mode.submit(
                    (id(self), key), lambda: self.compile(key), lambda kernel: self.kernels.__setitem__(key, kernel)
                )
        if not warmup:
            kernel = kernel.result() if hasattr(kernel, "result") else kernel
            self.launched.append(key)
            kernel(*arguments)
        return kernel


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("gpu"):
        yield
        return
    for name in ("triton", "triton.runtime", "triton.runtime._async_compile", "triton.runtime.jit"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["triton.runtime._async_compile"], "active_mode", active_mode, raising=False)
    monkeypatch.setattr(sys.modules["triton.runtime.jit"], "JITFunction", JITFunction, raising=False)
    active = SimpleNamespace(launcher_cls=lambda source, metadata: source.launchers.append(threading.current_thread()))
    monkeypatch.setattr(sys.modules["triton.runtime"], "driver", SimpleNamespace(active=active), raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", torch.set_rng_state)
    monkeypatch.setattr(compilation, "_compilation", BackgroundCompilation())
    plain = JITFunction.run
    yield
    assert JITFunction.run is plain and active_mode.get() is None


def doubled(kernel: JITFunction, values: Tensor) -> Tensor:
    result = torch.empty_like(values)
    kernel[(1,)](values, result)
    return result


def test_missing_kernels_are_compiled_at_the_same_time_and_not_launched() -> None:
    both = threading.Barrier(3)
    kernels = [JITFunction(lambda: both.wait(20)), JITFunction(lambda: both.wait(20))]
    results = []
    rehearse(lambda: results.extend(doubled(kernel, torch.ones(2)) for kernel in kernels))
    both.wait(20)  # neither could end before both had begun, and the rehearsal has not waited for them
    wait_for_kernels()
    assert [kernel.compiled for kernel in kernels] == [[torch.float32]] * 2
    assert [kernel.launched for kernel in kernels] == [[]] * 2
    assert threading.main_thread() not in [thread for kernel in kernels for thread in kernel.launchers]
    assert [len(kernel.launchers) for kernel in kernels] == [1, 1]
    assert [result.tolist() for result in results] == [[0, 0]] * 2


def test_a_launch_waits_for_its_kernel_and_compiles_nothing_again() -> None:
    go_on = threading.Event()
    slow, quick = JITFunction(lambda: go_on.wait(20)), JITFunction()
    rehearse(lambda: (doubled(slow, torch.ones(2)), doubled(quick, torch.ones(2))))
    assert doubled(quick, torch.ones(2)).tolist() == [2, 2]
    assert not slow.compiled
    threading.Timer(0.05, go_on.set).start()
    assert doubled(slow, torch.ones(2)).tolist() == [2, 2]
    assert slow.compiled == quick.compiled == [torch.float32]
    doubled(quick, torch.ones(2, dtype=torch.float64))
    assert quick.compiled == [torch.float32, torch.float64]


def test_what_a_thread_cannot_compile_is_compiled_where_it_is_launched() -> None:
    failures = [RuntimeError("no such instruction")] * 2

    def fail() -> None:
        if failures:
            raise failures.pop()

    kernel = JITFunction(fail)
    rehearse(lambda: doubled(kernel, torch.ones(2)))
    with pytest.raises(RuntimeError, match="no such instruction"):
        doubled(kernel, torch.ones(2))
    assert doubled(kernel, torch.ones(2)).tolist() == [2, 2]


def test_errors_of_a_rehearsal_are_left_to_the_call_that_matters() -> None:
    def fail() -> None:
        raise RuntimeError("out of memory")

    rehearse(fail)
    kernel = JITFunction()
    assert doubled(kernel, torch.ones(2)).tolist() == [2, 2]


def test_a_launcher_that_cannot_be_made_is_made_at_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Any, metadata: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(sys.modules["triton.runtime"].driver.active, "launcher_cls", fail)
    kernel = JITFunction()
    rehearse(lambda: doubled(kernel, torch.ones(2)))
    assert doubled(kernel, torch.ones(2)).tolist() == [2, 2] and len(kernel.compiled) == 1


def test_what_was_rehearsed_on_a_machine_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys.modules["triton"], "__version__", "3.6.0", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    first = Rehearsals("a model", 3)
    assert not first.are_done
    first.note()
    assert Rehearsals("a model", 3).are_done and not Rehearsals("a model", 4).are_done
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another")
    assert not Rehearsals("a model", 3).are_done
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "file"))
    nowhere = Rehearsals("a model", 3)
    nowhere.note()
    assert not nowhere.are_done


def test_other_threads_launch_their_kernels_during_a_rehearsal() -> None:
    kernel, results = JITFunction(), []

    def rehearsed() -> None:
        other = threading.Thread(target=lambda: results.append(doubled(kernel, torch.ones(2)).tolist()))
        other.start()
        other.join()
        assert doubled(kernel, torch.ones(2)).tolist() == [0, 0]

    rehearse(rehearsed)
    assert results == [[2, 2]] and doubled(kernel, torch.ones(2)).tolist() == [2, 2]


def test_backward_passes_are_rehearsed() -> None:
    kernel = JITFunction()

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            return 2 * values

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return doubled(kernel, gradient)

    weights = torch.ones(2, requires_grad=True)
    rehearse(lambda: Double.apply(weights).sum().backward())
    assert weights.grad is not None and weights.grad.tolist() == [0, 0] and not kernel.launched


def test_products_are_not_computed() -> None:
    shapes, values = [], []

    def products() -> None:
        left, right = torch.ones(3, 5, requires_grad=True), torch.ones(5, 7)
        for result in (
            left @ right,
            torch.addmm(torch.ones(7), left, right),
            torch.ones(2, 3, 5) @ torch.ones(2, 5, 7),
        ):
            shapes.append(tuple(result.shape))
            values.append(bool(result.any()))
        (left @ right).sum().backward()
        assert left.grad is not None
        shapes.append(tuple(left.grad.shape))

    rehearse(products)
    assert shapes == [(3, 7), (3, 7), (2, 3, 7), (3, 5)] and values == [False] * 3


def test_random_numbers_are_drawn_again() -> None:
    torch.manual_seed(3)
    drawn = []
    rehearse(lambda: drawn.append(torch.rand(2)))
    assert torch.rand(2).tolist() == drawn[0].tolist()


def test_without_a_gpu_nothing_is_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rehearse(lambda: pytest.fail("was called"))
    wait_for_kernels()


def test_a_version_of_triton_without_these_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["triton.runtime._async_compile"], "active_mode")
    rehearse(lambda: pytest.fail("was called"))


def test_threads_do_all_work_and_end() -> None:
    threads = CompilerThreads(2)
    futures = [threads.submit(lambda number=number: (number, threading.get_ident())) for number in range(20)]  # type: ignore[misc]
    results = [future.result(20) for future in futures]
    assert [number for number, _ in results] == list(range(20))
    for thread in threading.enumerate():
        if thread.name == "weft compiles kernels":
            thread.join(20)
    assert not threads.running


@pytest.mark.gpu
def test_a_kernel_of_triton() -> None:
    """Rehearsed, it is not launched; launched, it is not compiled again."""
    from triton import knobs

    from weft.fast.triton.add_norm import add_norm

    stream, output = torch.randn(2, 8, 48, device="cuda", dtype=torch.bfloat16)
    weight, bias = torch.randn(2, 48, device="cuda")
    compiled: list[str] = []
    results: list[Tensor] = []
    before = knobs.compilation.listener
    knobs.compilation.listener = lambda *, src, **_: compiled.append(src.name)
    try:
        rehearse(lambda: results.extend(add_norm(stream, output, weight, bias, 1e-5)))
        wait_for_kernels()
        count = len(compiled)
        assert not results[0].any() and not results[1].any()
        sums, normalized = add_norm(stream, output, weight, bias, 1e-5)
        assert len(compiled) == count
    finally:
        knobs.compilation.listener = before
    added = stream.float() + output.float()
    torch.testing.assert_close(sums, added.bfloat16())
    expected = torch.nn.functional.layer_norm(added, (48,), weight, bias, 1e-5)
    torch.testing.assert_close(normalized.float(), expected, rtol=0.02, atol=0.02)
