"""The environment of a measurement: versions, the kind of machine, CPU time and memory of this process."""

from __future__ import annotations

import platform
import resource
from importlib.metadata import version
from pathlib import Path

from weft import __version__
from weft.runtime.processes import core_count


def environment() -> dict[str, str]:
    """Versions and machine that a result may depend on besides its seeds."""
    return {
        "weft": __version__,
        "torch": version("torch"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {core_count()} cores",
    }


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return " ".join(next(names, "unknown processor").split())


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
