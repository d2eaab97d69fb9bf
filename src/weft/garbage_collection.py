"""Pausing garbage collection: during imports and loading, captures of CUDA graphs, and fast searches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused(*, freeze: bool = False, promote: bool = False) -> Iterator[None]:
    """No garbage collection in the block.

    While modules are imported, it takes as long as the imports; during a CUDA graph capture, it may free what
    invalidates the capture.

    ``freeze``: exempt what exists after the block for good; for programs that own their process. ``promote``: count it
    as old, so that the first collection after the block does not go through all of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        elif promote and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        if enabled:
            gc.enable()


@contextmanager
def existing_objects_exempt() -> Iterator[None]:
    """In the block, garbage is collected among new objects only: a collection of all others stops every thread.

    Where something is exempt already, as in commands, nothing is changed.
    """
    freezes = gc.get_freeze_count() == 0
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        if freezes:
            gc.unfreeze()
