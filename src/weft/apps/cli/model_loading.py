"""Loading a run in a command, as quickly as its imports allow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.runtime.switches import frozen_afterwards

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def load_runs(*runs: Path, device: str, **options: Any) -> Translator:
    """Load a run, or several as an ensemble, as `weft.load` does."""
    with frozen_afterwards():
        from weft.translation.load import load

        return load(*runs, device=device, **options)
