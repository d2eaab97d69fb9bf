"""A run with one of its adapters, written RUN or RUN:ADAPTER."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.errors import CheckpointError, nearest
from weft.recipe.training import NO_ADAPTER
from weft.runs.layout import RunFolder

WEIGHTS = "adapter_model.safetensors"


class AdaptedRun(NamedTuple):
    """A run folder, and the adapter to use; None: the one that the run has trained, if it has."""

    path: Path
    adapter: str | None = None

    @classmethod
    def parse(cls, text: Path | str) -> AdaptedRun:
        """``RUN`` or ``RUN:ADAPTER``; a folder that has a colon in its name is a run."""
        path = Path(text)
        if ":" in path.name and not path.exists():
            run, _, adapter = str(text).rpartition(":")
            return cls(Path(run), adapter)
        return cls(path)

    def __str__(self) -> str:
        return str(self.path) if self.adapter is None else f"{self.path}:{self.adapter}"

    @property
    def name(self) -> str:
        """The name of the folder, and of the adapter if one is chosen."""
        folder = self.path.resolve().name
        return folder if self.adapter is None else f"{folder}:{self.adapter}"

    def check(self) -> None:
        """Fail if it is not a run, or has no such adapter, without importing torch."""
        RunFolder(self.path).check()
        if self.adapter not in (None, NO_ADAPTER, *(names := adapter_names(self.path))):
            has = nearest(str(self.adapter), [*names, NO_ADAPTER]) if names else "it has none"
            raise CheckpointError(f"{self}: {self.path} has no adapter {self.adapter!r}; {has}")


def adapter_names(run: Path) -> list[str]:
    """The names of a run's adapters."""
    return sorted(path.parent.name for path in run.glob(f"adapters/*/{WEIGHTS}"))
