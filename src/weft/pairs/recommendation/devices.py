"""The kind of device that a recipe is for, determined without importing torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Device = Literal["cpu", "cuda"]


def likely_device(devices: Path = Path("/dev")) -> Device:
    """Whether this machine has an NVIDIA GPU that may be used, by its device files."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    present = any((devices / name).exists() for name in ("nvidia0", "nvidiactl", "dxg"))
    return "cuda" if present and not hidden else "cpu"
