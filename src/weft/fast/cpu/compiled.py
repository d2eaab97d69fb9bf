"""Kernels in C for the search of one sentence on a CPU, compiled on the user's machine when they are first needed.

weft is installed without a compiler. Where there is one (``$CC``, cc, gcc or clang), `library` compiles ``native/*.c``
in the background, in a second or two, into the cache (`weft.files.cache_folder`), for the instructions that PyTorch
uses; later processes find it there. Until then, without a compiler, and with ``WEFT_NATIVE=0`` it is None, and the
callers use PyTorch. `Linear`, `Norm` and `pointer` describe to C what it reads.

`few_rows_linear` is equal to `torch.nn.functional.linear` up to rounding; tests/fast/cpu/test_compiled.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.files import cache_folder

SOURCES = Path(__file__).parent / "native"
OPTIONS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-fno-trapping-math")
INSTRUCTIONS = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}
"""Options for the instructions that PyTorch uses (``ATEN_CPU_CAPABILITY``); of others, those that every CPU has."""
COMPILE_SECONDS = 300
"""A compiler that takes longer has been killed."""
POLL_SECONDS = 0.05


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
    """The address of a contiguous tensor, which the caller keeps alive."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def few_rows_linear(inputs_RD: Tensor, linear: Linear) -> Tensor:
    """(R, E) W x + b; the functions must be loaded."""
    outputs_RE = inputs_RD.new_empty(inputs_RD.shape[0], linear.outputs)
    loaded.weft_linear(
        ctypes.byref(linear), inputs_RD.data_ptr(), inputs_RD.shape[0], outputs_RE.data_ptr(), torch.get_num_threads()
    )
    return outputs_RE


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
    loaded = _library
    return loaded


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
    digest = hashlib.sha256(" ".join([compiler, platform.machine(), *compile_options()]).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return folder / "native" / f"{digest.hexdigest()[:24]}.so"


def find_compiler() -> str | None:
    """The path of a C compiler."""
    named = os.environ.get("CC")
    return next((path for name in (named, "cc", "gcc", "clang") if name and (path := shutil.which(name))), None)


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
    compiler = find_compiler()
    if path is None or compiler is None:
        return
    building = path.with_suffix(".building")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if building.exists() and time.time() - building.stat().st_mtime > COMPILE_SECONDS:
            shutil.rmtree(building, ignore_errors=True)  # its process was killed
        with suppress(FileExistsError):
            building.mkdir(mode=0o700)
            _start_compiler(compiler, building, path)
        while building.exists() and time.time() - building.stat().st_mtime < COMPILE_SECONDS:
            time.sleep(POLL_SECONDS)
    except OSError:  # no such folder, or a full disk
        return
    if path.exists():
        _load(path)


def _start_compiler(compiler: str, building: Path, path: Path) -> None:
    """Compile in a folder, which is removed at the end, and move the library to its path if that succeeds."""
    output, sources = str(building / "library.so"), map(str, sorted(SOURCES.glob("*.c")))
    script = '"$@" && mv "$0/library.so" "$WEFT_LIBRARY"; rm -rf "$0"'
    subprocess.Popen(
        ["/bin/sh", "-c", script, str(building), compiler, *compile_options(), *sources, "-o", output, "-lm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "WEFT_LIBRARY": str(path)},
        start_new_session=True,
    )


def _load(path: Path) -> None:
    """Load a library that nobody but this user can have written."""
    global loaded, _library
    try:
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return
        native = ctypes.CDLL(str(path))
        integer, address = ctypes.c_int, ctypes.c_void_p
        native.weft_linear.argtypes = (address, address, integer, address, integer)
        native.weft_transformer_step.argtypes = (address, address, integer, integer, integer, address)
        native.weft_transformer_greedy.argtypes = (address, address, address, address)
        native.weft_log_sum_exp.argtypes = (address, integer, integer, address, integer)
        native.weft_top_k.argtypes = (address, address, integer, integer, integer, address, address, address)
        native.weft_beam_update.argtypes = (address, address, address, address, integer, address)
        for function in (
            native.weft_linear,
            native.weft_transformer_step,
            native.weft_log_sum_exp,
            native.weft_beam_update,
        ):
            function.restype = None
    except (OSError, AttributeError):
        return
    loaded = _library = native
