"""The device that a model is on: which one, its memory, work that is divided if memory runs out, mixed precision.

Available memory is what the system can hand out without swapping, less where a control group (a container) or
`ulimit -v` allows less. Where that is unknown, nothing is refused.

Other processes take memory of the same device whenever they like. A computation that runs out of it (`DividedWork`) is
repeated in twice as many parts: a search or a validation continues with smaller batches, an update of the weights sums
the gradients of the parts of its batch. The results are the same.
"""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from weft.errors import CheckpointError, RecipeError, is_out_of_memory, warn
from weft.runtime.replaceable import replaceable

Result = TypeVar("Result")
Rows = np.ndarray


def choose_device(name: str, *, given: str | None = None) -> torch.device:
    """The device of a recipe; ``auto``: CUDA if there is a GPU, else the CPU.

    ``given``: the option that named it, for messages; by default it is the setting training.device.
    """
    subject = f"training.device: {name!r}" if given is None else f"{given}:"
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"{subject} is not a device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise RecipeError(f"{subject} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        was_requested = " was requested, but" if given is None else ""
        raise RecipeError(f"{subject}{was_requested} this machine has no CUDA; use cpu or auto")
    return device


@replaceable
def start_device(device: torch.device, *, is_idle: bool = False) -> None:
    """Begin what comes before the first computation on a device, if it can be done beside other work; here nothing.

    ``is_idle``: whether this process will not use the device for some time.
    """


def autocast_dtype(values: Tensor) -> torch.dtype:
    """The type in which autocast multiplies such values; without autocast, their own."""
    device_type = values.device.type
    return torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else values.dtype


def without_autocast(values: Tensor) -> torch.autocast:
    """A block in which these values, and others on their device, are multiplied in their own type."""
    return torch.autocast(values.device.type, enabled=False)


# Memory


def available_memory() -> int | None:
    """Bytes that this process can still allocate in main memory; None where the system does not say."""
    amounts = [
        amount for amount in (_system_memory(), *_control_group_memory(), _address_space()) if amount is not None
    ]
    return min(amounts, default=None)


def device_memory(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device."""
    if device.type != "cuda":
        return available_memory()
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _system_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _control_group_memory() -> Iterator[int]:
    """Memory left by the control groups of this process: their limits less their unreclaimable usage."""
    groups = {Path("/sys/fs/cgroup"), *_own_groups()}
    for group in groups:
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            try:
                left = int((group / limit).read_text("ascii")) - int((group / used).read_text("ascii"))
                statistics = (group / "memory.stat").read_text("ascii").split()
                left += int(dict(zip(statistics[::2], statistics[1::2], strict=False)).get("inactive_file", 0))
                yield max(left, 0)
            except (OSError, ValueError):  # no such group, or no limit ("max")
                continue


def _own_groups() -> Iterator[Path]:
    try:
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                yield Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
    except (OSError, ValueError):
        return


def _address_space() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        used = 0
    return max(limit - used, 0)


def gigabytes(count: float) -> str:
    """A number of bytes for a message."""
    return f"{count / 1e9:,.1f} GB" if count >= 5e7 else f"{count / 1e6:,.1f} MB"


def check_weights_memory(where: str, size: int) -> None:
    """Fail if the tensors of a file cannot fit in memory; ``size``: their size in bytes."""
    available = available_memory()
    if available is not None and size > available:
        raise CheckpointError(
            f"{where}: its tensors have {gigabytes(size)}, and {gigabytes(available)} of memory are available"
        )


def release_memory() -> None:
    """Give back memory that PyTorch keeps for later."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class DividedWork:
    """Work that is done in one piece as long as memory suffices, then in 2, 4, 8, … parts; their number is kept."""

    def __init__(self, name: str, release: Callable[[], None] = release_memory) -> None:
        """``name``: a name of the work, for the warning; ``release``: frees memory before the next attempt."""
        self.name = name
        self.release = release
        self.parts = 1
        self.has_warned = False

    def run(self, compute: Callable[[int], Result], *, most: int) -> Result:
        """The result of ``compute``, which is given the number of parts; with ``most`` parts, the error is raised."""
        while True:
            parts = min(self.parts, max(most, 1))
            try:
                return compute(parts)
            except Exception as error:
                if parts >= most or not is_out_of_memory(error):
                    raise
            self.release()  # not above: until there, the error keeps what was computed
            self.parts = max(self.parts, 2 * parts)  # another thread may have been here
            self._warn()

    def over_rows(self, compute: Callable[[Rows], Sequence[Result]], rows: Rows) -> Sequence[Result]:
        """The results of all rows, computed together or in parts, one after the other."""

        def in_parts(parts: int) -> Sequence[Result]:
            if parts == 1:
                return compute(rows)
            return [result for part in np.array_split(rows, parts) for result in compute(part)]

        return self.run(in_parts, most=len(rows))

    def _warn(self) -> None:
        if not self.has_warned:
            self.has_warned = True
            warn(f"{self.name}: not enough memory for a whole batch; continuing in parts, with the same results")
