"""The device that a model is on, and how exactly it multiplies there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from weft.errors import RecipeError


def choose_device(name: str) -> torch.device:
    """The device of a recipe; ``auto``: CUDA if there is a GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"training.device: {name!r} is not a device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise RecipeError(f"training.device: {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RecipeError(f"training.device: {name!r} was requested, but this machine has no CUDA; use cpu or auto")
    return device


class Tf32Switch:
    """Whether CUDA rounds the factors of fp32 matrix products to TF32: PyTorch has one setting for a whole process.

    Blocks of code in several threads may overlap. The one that was entered last decides; when all have ended, the
    setting is what it was before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[object, tuple[bool, bool]] = {}
        self._before = (False, False)

    @contextmanager
    def block(self, allowed: bool) -> Iterator[None]:
        key = object()
        with self._lock:
            if not self._blocks:
                self._before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
            self._blocks[key] = allowed, allowed
            self._set()
        try:
            yield
        finally:
            with self._lock:
                del self._blocks[key]
                self._set()

    def _set(self) -> None:
        matmul, cudnn = [self._before, *self._blocks.values()][-1]
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.allow_tf32 = cudnn


allow_tf32 = Tf32Switch().block
"""``with allow_tf32(True):`` matrix products and recurrent layers on a GPU may use TF32; with False they may not."""
