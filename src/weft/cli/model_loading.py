"""Loading a run in a command, as quickly as its imports allow."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def load_runs(*runs: Path, device: str, **options: Any) -> Translator:
    """What `weft.load` gives for a run, or for several as an ensemble."""
    with collection_paused():
        from weft.translation.load import load

        return load(*runs, device=device, **options)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Import modules without garbage collection, and exempt what exists afterwards from it for good.

    Modules stay until the process ends. To search them for garbage again and again takes a fifth of the time of
    ``import torch``.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
