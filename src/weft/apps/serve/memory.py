"""The memory of a service: what its requests may use, and giving it back.

`ServeSettings.memory` is for the service and its workers together. An eighth is for the service: bodies of requests,
and events that clients have not read yet. The models share the rest equally. Half of what a loaded model leaves of its
share is for its batches, half for long operations: a `MemoryBudget` each. An operation reserves what
`weft.apps.serve.costs` says it needs, and waits while others have reserved too much. Estimates may be wrong: beyond its
share, plus a margin, an allocation of a worker on a CPU fails, which ends that operation and no other.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from weft.apps.serve.settings import ServeSettings

SERVICE_SHARE = 0.125
"""The service's own part of the memory."""
CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container finds the limit of its memory: control groups of version 2 and 1."""
UNKNOWN_MEMORY = 4 << 30
"""Bytes that a machine is taken to have if it does not say."""
FEWEST_BYTES = 32 << 20
"""A worker with less for its operations cannot answer anything useful."""
MARGIN = 1.25
"""How much more than reserved a worker may allocate: estimates, fragmentation, allocator caches."""
POLL_SECONDS = 0.1
TRIMMED_BYTES = 32 << 20
"""Operations that reserved more give their memory back to the system when they end."""


def memory_in_bytes(settings: ServeSettings) -> int:
    """`ServeSettings.memory` in bytes: a share is one of the machine's memory."""
    return int(settings.memory if settings.memory > 1 else settings.memory * machine_memory())


def machine_memory() -> int:
    """The memory of this machine, or of its container, in bytes.

    `weft.runtime.devices` knows what is available now, but imports torch, and the service does not.
    """
    amounts = []
    with suppress(OSError, ValueError, AttributeError):
        amounts.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # "max": no limit
            amounts.append(int(Path(name).read_text("ascii")))
    return min(amounts, default=UNKNOWN_MEMORY)


class MemoryBudget:
    """The bytes that the operations of a worker may use at the same time."""

    def __init__(self, limit: float | None) -> None:
        """``limit``: in bytes; None: unlimited."""
        self.limit = limit
        self.reserved = 0.0
        self.changed = threading.Condition()

    @contextmanager
    def reserve(self, size: float, is_abandoned: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait until ``size`` bytes are free, and hold them; False, and nothing held, if the caller was abandoned.

        ``size`` above the limit is the caller's mistake: such an operation is refused before.
        """
        size = min(size, self.limit) if self.limit is not None else size
        with self.changed:
            while self.limit is not None and self.reserved + size > self.limit:
                if is_abandoned():
                    break
                self.changed.wait(POLL_SECONDS)
            else:
                self.reserved += size
                is_abandoned = lambda: False  # noqa: E731
        if is_abandoned():
            yield False
            return
        try:
            yield True
        finally:
            with self.changed:
                self.reserved -= size
                self.changed.notify_all()
            if size > TRIMMED_BYTES:
                give_back()


def give_back() -> None:
    """Free what nothing refers to any more, and the buffers of this thread, and return them to the system."""
    gc.collect()
    if (free_buffers := _free_matrix_buffers()) is not None:
        free_buffers()
    trim_heap()


def trim_heap() -> None:
    """Return freed memory to the system: glibc keeps much of it in its arenas."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None).malloc_trim
    return None


@cache
def _free_matrix_buffers() -> Callable[[], object] | None:
    """MKL keeps the buffers of the matrix products of each thread, 10 to 25 MB; None without MKL."""
    if (torch := sys.modules.get("torch")) is not None:
        library = Path(str(torch.__file__)).parent / "lib" / "libtorch_cpu.so"
        with suppress(OSError, AttributeError):
            return ctypes.CDLL(str(library)).mkl_serv_thread_free_buffers
    return None


def own_memory(field: str = "VmRSS") -> int | None:
    """Bytes of this process, by a field of its status: VmRSS, VmData; None where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def limit_allocations(budget: float | None) -> None:
    """Let allocations fail that would take this process beyond a budget and a margin; None: no limit."""
    data = own_memory("VmData")
    if data is None:
        return
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = hard if budget is None else int(data + MARGIN * budget) + FEWEST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
