"""Keeping memory that was freed, for the next step to use.

A training step on a CPU asks for the same large blocks again and again. The C library hands each back to the system and
fetches it anew, page by page: on our measurements a third more time for the products that fill such blocks. This tells
it (glibc; elsewhere nothing happens) to keep them. For the process that trains, so the command line calls it.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Whether the C library could be told to keep freed memory."""
    try:
        tell = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return all(tell(name, value) for name, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, 1 << 26)))
