"""Programmatic dependent launch: a kernel starts while the one before it is still running (NVIDIA Hopper and later).

A kernel launched with `launch_options` may run before the previous one has ended. It loads what no kernel writes, such
as weights, then calls `wait_for_inputs`, which returns when all kernels before it have ended and their results are
visible. Everything else is loaded, and everything is stored, after that. Elsewhere the two do nothing.

It changes when kernels start and not what they compute: tests/fast/recording/test_search.py compares whole searches.
"""

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOPPER = 9
"""The first major compute capability with dependent launches."""


@triton.jit
def wait_for_inputs(overlaps: tl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the kernels before this one; the kernel after it may start now. ``overlaps``: see `launch_options`."""
    if overlaps:
        gdc_launch_dependents()
        gdc_wait()


@lru_cache(maxsize=8)
def launch_options(device: torch.device) -> dict[str, Any]:
    """Arguments of a launch: ``overlaps`` for the kernel itself and, where it is true, the launch attribute."""
    overlaps = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= HOPPER
    return {"overlaps": True, "launch_pdl": True} if overlaps else {"overlaps": False}
