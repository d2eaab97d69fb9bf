"""Kernels in C for the search of one sentence on a CPU, compiled on the user's machine when they are first needed.

weft is installed without a compiler. Where there is one (``$CC``, cc, gcc or clang), `library` compiles ``native/*.c``
in the background, in some seconds, into the cache (`weft.files.cache_folder`), for the instructions that PyTorch uses;
later processes find it there. Before a library is put there, another process compares searches by it with PyTorch's
(`weft.fast.steps.native_check`). Until then, without a compiler, and with ``WEFT_NATIVE=0`` it is None, and the
callers use PyTorch. `Linear`, `Norm` and `pointer` describe to C what it reads.

A library runs in this process, so it is loaded only from a folder that nobody but this user can write to, and compiled
by a program that is named by an absolute path, in that folder: nothing of the current folder is run or included.

`few_rows_linear` is equal to `torch.nn.functional.linear` up to rounding; tests/fast/cpu/test_compiled.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.errors import warn
from weft.files import cache_folder

SOURCES = Path(__file__).parent / "native"
PACKAGES = Path(__file__).parents[3]
"""The folder from which weft is imported."""
OPTIONS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-fno-trapping-math")
INSTRUCTIONS = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}
"""Options for the instructions that PyTorch uses (``ATEN_CPU_CAPABILITY``); of others, those that every CPU has."""
COMPILE_SECONDS = 300
"""A compiler that takes longer is ended."""
FAILURE_SECONDS = 24 * 3600
"""So long after a compiler has failed, it is not started again."""
POLL_SECONDS = 0.05
SCRIPT = """
umask 077
(ulimit -t "$WEFT_SECONDS") 2>/dev/null && ulimit -t "$WEFT_SECONDS"
if ! "$@"; then : > "$WEFT_FAILED"
elif [ -z "$WEFT_PYTHON" ] || "$WEFT_PYTHON" -P -m weft.fast.steps.native_check "$WEFT_OUTPUT" > reason; then
    mv -f "$WEFT_OUTPUT" "$WEFT_LIBRARY" || : > "$WEFT_FAILED"
else
    status=$?
    [ -s reason ] || echo "it ended with status $status" > reason
    mv -f reason "$WEFT_FAILED"
fi
cd / && rm -rf "$0"
"""
"""Compiles in a folder, which is removed at the end, and moves the library to its path if it then passes its check;
otherwise leaves the reason. The limit of processor time holds even if the process that started it has ended."""


class Linear(ctypes.Structure):
    """A linear map as native/kernels.h declares it."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("bound", ctypes.c_float),
        ("levels", ctypes.c_int32),
    )

    @classmethod
    def of(cls, weight_ED: Tensor, bias_E: Tensor | None) -> Linear:
        outputs, inputs = weight_ED.shape
        return cls(weight=pointer(weight_ED), bias=pointer(bias_E), outputs=outputs, inputs=inputs)


class Norm(ctypes.Structure):
    """A norm as native/kernels.h declares it."""

    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("epsilon", ctypes.c_float))

    @classmethod
    def of(cls, norm: nn.Module | None) -> Norm:
        """A layer norm or a norm by the root mean square; None: no norm."""
        if norm is None:
            return cls()
        if isinstance(norm, nn.LayerNorm):
            return cls(pointer(norm.weight), pointer(norm.bias), norm.eps)
        assert isinstance(norm, nn.RMSNorm)
        epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        return cls(pointer(norm.weight), None, epsilon)


def pointer(tensor: Tensor | None) -> int | None:
    """The address of a contiguous tensor on the CPU, which the caller keeps alive."""
    if tensor is None:
        return None
    if not (tensor.is_contiguous() and tensor.is_cpu):
        raise ValueError("C reads contiguous tensors on the CPU")
    return tensor.data_ptr()


def few_rows_linear(inputs_RD: Tensor, linear: Linear) -> Tensor:
    """(R, E) W x + b; the functions must be loaded."""
    if inputs_RD.dtype != torch.float32 or inputs_RD.shape[1:] != (linear.inputs,):
        raise ValueError(f"expected float32 inputs (R, {linear.inputs}), got {inputs_RD.dtype} {inputs_RD.shape}")
    outputs_RE = inputs_RD.new_empty(inputs_RD.shape[0], linear.outputs)
    check_memory(
        loaded.weft_linear(
            ctypes.byref(linear), pointer(inputs_RD), len(inputs_RD), pointer(outputs_RE), torch.get_num_threads()
        )
    )
    return outputs_RE


def check_memory(result: int) -> int:
    """The result of a function of C; MemoryError if it is −1."""
    if result < 0:
        raise MemoryError("no memory for a search step")
    return result


loaded: Any = None
"""The compiled functions; None: there are none, or not yet."""
_lock = threading.Lock()
_build: threading.Thread | None = None
_library: Any = None


def library(*, wait: bool = False) -> Any:
    """The compiled functions, which are in use from then on; have them compiled if they are not. ``wait``: for that.

    Called when an engine is made for a CPU: what the functions are used for only looks whether they are ``loaded``.
    """
    global loaded
    if os.environ.get("WEFT_NATIVE") == "0":
        return None
    if _build is None:
        with _lock:
            if _build is None:
                _load_or_build()
    if wait and _build is not None:
        _build.join()
    library = _library
    if library is not None:  # never back to None: another thread may have seen that it is loaded
        loaded = library
    return library


def _forget_build() -> None:
    """In a forked process, which has neither the thread that waits for the compiler nor the owner of the lock."""
    global _lock, _build
    _lock = threading.Lock()
    if _library is None:
        _build = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_build)


def _load_or_build() -> None:
    global _build
    path = library_path()
    if path is not None and path.exists():
        _load(path)
    _build = threading.Thread(target=_compile, args=(None if _library else path,), name="weft-compile", daemon=True)
    _build.start()


def library_path() -> Path | None:
    """The file of the compiled functions in the cache, by source, options and compiler; None: there can be none."""
    folder, compiler = cache_folder(), find_compiler()
    if folder is None or compiler is None or os.name != "posix":
        return None
    made = str(Path(compiler).stat().st_mtime_ns)
    digest = hashlib.sha256(" ".join([compiler, made, platform.machine(), *compile_options()]).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return folder / "native" / f"{digest.hexdigest()[:24]}.so"


def find_compiler() -> str | None:
    """The absolute path of a C compiler: none of the current folder, even if that is searched for programs."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    paths = (shutil.which(name) for name in names if name)
    return next((path for path in paths if path is not None and Path(path).is_absolute()), None)


def compile_options() -> tuple[str, ...]:
    capability = torch.backends.cpu.get_cpu_capability()
    instructions = INSTRUCTIONS.get(capability, ())
    if capability == "AVX512" and torch.cpu._is_vnni_supported():
        instructions += ("-mavx512vnni",)
    return (*OPTIONS, *instructions)


def _compile(path: Path | None) -> None:
    """Have the library compiled, unless another process does, and load it when it is there.

    The compiler is not stopped if this process ends before: the next one will need the library too.
    """
    compiler, process = find_compiler(), None
    if path is None or compiler is None:
        return
    building, deadline = path.with_suffix(".building"), time.monotonic() + COMPILE_SECONDS
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_private(path.parent) or _age(path.with_suffix(".failed")) < FAILURE_SECONDS:
            return
        if building.exists() and not _age(building) < COMPILE_SECONDS:
            shutil.rmtree(building, ignore_errors=True)  # its process was killed
        with suppress(FileExistsError):
            building.mkdir(mode=0o700)
            process = _start_compiler(compiler, building, path)
        while building.exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    except OSError:  # no such folder, or a full disk
        return
    finally:
        if process is not None:
            _end(process, building)
    if path.exists():
        _load(path)
    elif process is not None:
        _warn_of_failed_check(path.with_suffix(".failed"))


def _warn_of_failed_check(failed: Path) -> None:
    with suppress(OSError):
        if reason := failed.read_text("utf-8").strip():
            warn(
                f"{failed}: the kernels compiled for this processor failed their check ({reason}); PyTorch is used "
                "instead: searches of one sentence are slower, their results are the same"
            )


def _age(path: Path) -> float:
    """Seconds since a file or folder was changed; infinite if there is none, or if it is of the future."""
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")
    return age if age > -1.0 else float("inf")


def _start_compiler(compiler: str, building: Path, path: Path) -> subprocess.Popen[bytes]:
    """Start `SCRIPT` in its folder. The output has a name of its own: it is nobody else's, should that folder have been
    removed as left behind, and made again, while this process was suspended."""
    output, sources = str(building / f"{uuid.uuid4().hex}.so"), map(str, sorted(SOURCES.glob("*.c")))
    variables = {
        "WEFT_LIBRARY": path,
        "WEFT_OUTPUT": output,
        "WEFT_FAILED": path.with_suffix(".failed"),
        "WEFT_SECONDS": COMPILE_SECONDS,
        "WEFT_PYTHON": sys.executable or "",
        "WEFT_NATIVE": 0,
        "PYTHONPATH": os.pathsep.join([str(PACKAGES), *filter(os.path.isabs, sys.path)]),
        "TMPDIR": building,
    }
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, str(building), compiler, *compile_options(), *sources, "-o", output, "-lm"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=building,
            env={**os.environ, **{name: str(value) for name, value in variables.items()}},
            start_new_session=True,
        )
    except OSError:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _end(process: subprocess.Popen[bytes], building: Path) -> None:
    """End a compiler that should have ended."""
    try:
        process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with suppress(OSError):
            building.with_suffix(".failed").touch()
        shutil.rmtree(building, ignore_errors=True)


def is_private(path: Path) -> bool:
    """Whether nobody but this user, or root, can write a file, or change a folder or replace it."""
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    modes = (parent.stat().st_mode for parent in path.resolve().parents)
    return all(not mode & stat.S_IWOTH or mode & stat.S_ISVTX for mode in modes)


def _load(path: Path) -> None:
    """Load a library that nobody but this user can have written."""
    global loaded, _library
    with suppress(OSError):
        if is_private(path.parent) and is_private(path) and (native := open_library(path)) is not None:
            loaded = _library = native


def open_library(path: Path) -> Any:
    """The functions of a library; None if it is none."""
    try:
        native = ctypes.CDLL(str(path))
        integer, address = ctypes.c_int, ctypes.c_void_p
        native.weft_linear.argtypes = (address, address, integer, address, integer)
        native.weft_transformer_step.argtypes = (address, address, integer, integer, integer, address)
        native.weft_transformer_search.argtypes = (address,) * 6
        native.weft_recurrent_search.argtypes = (address,) * 5
        native.weft_log_sum_exp.argtypes = (address, integer, integer, address, integer)
        native.weft_top_k.argtypes = (address, address, integer, integer, integer, address, address, address)
        native.weft_beam_update.argtypes = (address, address, address, address, integer, address)
        native.weft_log_sum_exp.restype = native.weft_beam_update.restype = None
    except (OSError, AttributeError):
        return None
    return native
