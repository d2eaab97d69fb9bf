"""The peak memory of a call.

On a GPU: the largest amount of tensor memory during the call (`torch.cuda.max_memory_allocated`), less what was
allocated before it. On a CPU: the largest resident memory of the process during the call, less what was resident before
it, after the allocator has returned what it does not use; Linux tells this (``VmHWM``), other systems do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""The value that, written to ``clear_refs``, resets the peak to the current size: proc(5)."""


def peak_memory(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes that a call needs beyond what is allocated before it; None where the system does not report it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return max(torch.cuda.max_memory_allocated(device) - before, 0)
    try:
        _return_unused_memory()
        CLEAR.write_text(RESET_PEAK, "ascii")
        resident = _status("VmRSS")
        call()
        return max(_status("VmHWM") - resident, 0)
    except OSError:
        call()
        return None


def _return_unused_memory() -> None:
    """Give pages that no tensor uses back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    """An amount of memory of this process, in bytes."""
    for line in STATUS.read_text("ascii", "replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS}: no {name}")


def tensor_bytes(tensors: object) -> int:
    """The bytes of all tensors in nested lists, tuples and dictionaries."""
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    if isinstance(tensors, dict):
        return sum(map(tensor_bytes, tensors.values()))
    return sum(map(tensor_bytes, tensors)) if isinstance(tensors, list | tuple) else 0
